# The other files go along; config.json says what bitsandbytes has to know.
q quantize $DATA/hf -o out | figures
find out -type f | LC_ALL=C sort
cat out/config.json
cmp $DATA/hf/README.md out/LICENSE
test ! -h out/LICENSE
q verify out

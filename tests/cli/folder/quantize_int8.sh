q quantize $DATA/hf -o out -q -e int8
cat out/config.json
q verify out

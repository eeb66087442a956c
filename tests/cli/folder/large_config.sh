# One byte more than the limit.
cp -r $DATA/hf in
truncate -s 1048577 in/config.json
q quantize in -o out || echo $?

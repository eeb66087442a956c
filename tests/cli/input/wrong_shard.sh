code=0
q quantize $DATA/bad/wrong_shard -o out || code=$?
ls -A
exit $code

code=0
q quantize $DATA/bad/missing_shard -o out || code=$?
ls -A
exit $code

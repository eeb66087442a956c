code=0
mkdir out
q quantize $DATA/sharded -o out || code=$?
ls -A out
exit $code

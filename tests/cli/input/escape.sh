code=0
q quantize $DATA/bad/escape -o out || code=$?
ls -A
exit $code

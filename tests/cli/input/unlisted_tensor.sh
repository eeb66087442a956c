code=0
q quantize $DATA/bad/unlisted_tensor -o out || code=$?
ls -A
exit $code

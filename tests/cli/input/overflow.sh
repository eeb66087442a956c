code=0
q quantize $DATA/bad/overflow.safetensors -o out.safetensors || code=$?
ls -A
exit $code

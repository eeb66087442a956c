code=0
q quantize $DATA/bad/empty.safetensors -o out.safetensors || code=$?
ls -A
exit $code

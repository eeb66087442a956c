code=0
q quantize $DATA/bad/duplicate.safetensors -o out.safetensors || code=$?
ls -A
exit $code

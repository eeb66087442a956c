code=0
q quantize $DATA/bad/short.safetensors -o out.safetensors || code=$?
ls -A
exit $code

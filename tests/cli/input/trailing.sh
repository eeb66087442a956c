code=0
q quantize $DATA/bad/trailing.safetensors -o out.safetensors || code=$?
ls -A
exit $code

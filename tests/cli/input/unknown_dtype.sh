code=0
q quantize $DATA/bad/unknown_dtype.safetensors -o out.safetensors || code=$?
ls -A
exit $code

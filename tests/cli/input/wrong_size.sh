code=0
q quantize $DATA/bad/wrong_size.safetensors -o out.safetensors || code=$?
ls -A
exit $code

code=0
q quantize $DATA/bad/long_header.safetensors -o out.safetensors || code=$?
ls -A
exit $code

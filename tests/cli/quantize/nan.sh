q quantize $DATA/nan.safetensors -o out.safetensors || code=$?
ls -A
exit $code

code=0
q quantize $DATA/bad/not_json.safetensors -o out.safetensors || code=$?
ls -A
exit $code

code=0
q quantize $DATA/bad/hole.safetensors -o out.safetensors || code=$?
ls -A
exit $code

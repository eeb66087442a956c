code=0
q quantize $DATA/bad/overlap.safetensors -o out.safetensors || code=$?
ls -A
exit $code

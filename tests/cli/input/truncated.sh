code=0
q quantize $DATA/bad/truncated.safetensors -o out.safetensors || code=$?
ls -A
exit $code

code=0
echo precious >out.safetensors
q quantize $DATA/f32.safetensors -o out.safetensors || code=$?
cat out.safetensors
exit $code

code=0
q quantize $DATA/f32.safetensors -o a.safetensors -q
cp a.safetensors b.safetensors
q dequantize a.safetensors -o ./a.safetensors --force || code=$?
cmp a.safetensors b.safetensors
exit $code

q quantize $DATA/f32.safetensors -o a.safetensors -q
cp a.safetensors b.safetensors
q dequantize a.safetensors -o b.safetensors

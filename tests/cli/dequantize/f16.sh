q quantize $DATA/f32.safetensors -o a.safetensors -q -e int8
q dequantize a.safetensors -o b.safetensors --dtype f16 -q
q diff a.safetensors b.safetensors --tolerance 0.001

q quantize $DATA/f32.safetensors -o a.safetensors -q -e fp4
q dequantize a.safetensors -o b.safetensors --dtype bf16 -q
q diff a.safetensors b.safetensors --tolerance 0.01

q quantize $DATA/bf16.safetensors -o a.safetensors -q
q dequantize a.safetensors -o b.safetensors --dtype f32 -q
q diff a.safetensors b.safetensors

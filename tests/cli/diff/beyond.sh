q quantize $DATA/f32.safetensors -o a.safetensors -q
q diff $DATA/f32.safetensors a.safetensors

q quantize $DATA/f32.safetensors -o a.safetensors -q
q inspect a.safetensors

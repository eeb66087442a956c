q diff $DATA/f32.safetensors $DATA/odd.safetensors

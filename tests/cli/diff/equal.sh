q diff $DATA/f32.safetensors $DATA/f32.safetensors

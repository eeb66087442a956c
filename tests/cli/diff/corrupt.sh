q diff $DATA/bad/hole.safetensors $DATA/f32.safetensors

q diff $DATA/f32.safetensors nowhere.safetensors

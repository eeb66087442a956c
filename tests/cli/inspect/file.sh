q inspect $DATA/f32.safetensors

q plan $DATA/f32.safetensors --preset huge

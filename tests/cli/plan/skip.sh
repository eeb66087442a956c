q plan $DATA/f32.safetensors --skip down --skip embed

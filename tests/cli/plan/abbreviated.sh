q plan $DATA/f32.safetensors --enc fp4 --bl=32

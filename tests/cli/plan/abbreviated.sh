q plan $DATA/f32.safetensors --enc fp4 --lay auto --block=32

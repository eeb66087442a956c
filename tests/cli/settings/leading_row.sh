encodings q plan $DATA/f32.safetensors --encoding fp8 --block row --blocks leading

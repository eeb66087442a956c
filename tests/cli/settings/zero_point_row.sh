encodings q plan $DATA/f32.safetensors --encoding int8 --zero-point --block row

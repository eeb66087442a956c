encodings q plan $DATA/f32.safetensors --block row

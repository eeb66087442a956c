encodings q plan $DATA/f32.safetensors --zero-point

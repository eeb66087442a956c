encodings q plan $DATA/f32.safetensors --blocks deep

encodings q plan $DATA/f32.safetensors --scale e8m0

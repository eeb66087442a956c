encodings q plan $DATA/f32.safetensors --importance $DATA/importance/good.safetensors

encodings q plan $DATA/f32.safetensors --search --importance $DATA/importance/.

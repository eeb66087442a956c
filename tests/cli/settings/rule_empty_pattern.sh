encodings q plan $DATA/f32.safetensors --rule '=nf4'

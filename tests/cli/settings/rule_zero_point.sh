encodings q plan $DATA/f32.safetensors --rule 'q_proj=fp4:zero-point'

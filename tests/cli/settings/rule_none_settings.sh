encodings q plan $DATA/f32.safetensors --rule 'q_proj=none:block=32'

encodings q plan $DATA/f32.safetensors --rule 'q_proj=nf4:block=48'

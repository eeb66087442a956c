encodings q plan $DATA/f32.safetensors --rule 'q_proj=int8:block=row:search'

encodings q plan $DATA/f32.safetensors --rule 'q_proj=mxfp8:scale=bf16'

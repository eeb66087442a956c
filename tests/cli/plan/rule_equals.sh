# The '=' before the encoding splits; others belong to the pattern.
q plan $DATA/f32.safetensors --rule 'a=b|q_pro=*j=fp4:block=16'

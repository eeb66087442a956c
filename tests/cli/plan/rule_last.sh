# The last '=' that precedes an encoding splits, even where an earlier one could.
q plan $DATA/f32.safetensors --rule 'a=nf4:b|q_proj=fp4'

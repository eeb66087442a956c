# A rule that takes nothing is probably a mistake.
q plan $DATA/f32.safetensors --rule 'layer_0=int8'

# The first match wins; a rule overrides the defaults, a skip the rule.
q plan $DATA/f32.safetensors --rule 'layers\.0\.mlp=int8:block=32' --rule 'mlp=fp4' --rule 'lm_head=int8' --skip embed --rule 'embed=nf4'

# Patterns without effect are probably mistakes.
q plan $DATA/f32.safetensors --only 'layers' --only 'blocks' --skip 'mlp' --skip 'ffn' --rule 'down_proj=int8' --rule 'lm_head=fp4' --rule 'q_proj=int8' --rule 'self_attn=fp4' --rule 'nowhere=nf4' >out

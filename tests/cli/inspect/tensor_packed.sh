q quantize $DATA/f32.safetensors -o a.safetensors -q
q inspect a.safetensors --tensor model.layers.0.self_attn.q_proj.weight

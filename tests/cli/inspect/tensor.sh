q inspect $DATA/f32.safetensors --tensor lm_head.weight

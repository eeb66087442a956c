q inspect $DATA/nan.safetensors --tensor model.layers.0.mlp.down_proj.weight

q quantize $DATA/f32.safetensors -o a.safetensors -q -e int8
q inspect a.safetensors --json --tensor model.layers.0.mlp.down_proj.weight | check_json inspect tensor.block tensor.statistics.packed.scales tensor.statistics.packed.entropy_bits
q inspect $DATA/odd.safetensors --json --tensor ids | check_json inspect tensor.statistics
q inspect $DATA/f32.safetensors --json --tensor lm_head.weight | check_json inspect tensor.statistics.packed tensor.statistics.absmax

q inspect $DATA/f32.safetensors --tensor zzz

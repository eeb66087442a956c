q inspect $DATA/odd.safetensors --tensor empty.weight

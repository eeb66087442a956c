q inspect $DATA/odd.safetensors --tensor ids

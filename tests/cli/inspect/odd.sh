q inspect $DATA/odd.safetensors

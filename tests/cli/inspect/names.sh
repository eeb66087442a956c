q inspect $DATA/names.safetensors

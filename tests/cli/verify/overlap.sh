q verify $DATA/bad/overlap.safetensors

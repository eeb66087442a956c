q verify $DATA/bad/overflow.safetensors

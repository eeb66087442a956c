q verify $DATA/bad/wrong_size.safetensors

q verify $DATA/bad/hole.safetensors

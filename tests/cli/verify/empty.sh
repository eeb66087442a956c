q verify $DATA/bad/empty.safetensors

q verify $DATA/bad/short.safetensors

q verify $DATA/bad/trailing.safetensors

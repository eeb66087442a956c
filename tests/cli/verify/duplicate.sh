q verify $DATA/bad/duplicate.safetensors

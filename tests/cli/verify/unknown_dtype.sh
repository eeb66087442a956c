q verify $DATA/bad/unknown_dtype.safetensors

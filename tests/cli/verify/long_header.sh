q verify $DATA/bad/long_header.safetensors

q verify $DATA/bad/not_json.safetensors

q plan $DATA/names.safetensors --json | check_json plan tensors.0.name

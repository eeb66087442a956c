q plan $DATA/odd.safetensors

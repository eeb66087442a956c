q plan nowhere.safetensors

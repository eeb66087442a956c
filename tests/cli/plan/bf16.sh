q plan $DATA/bf16.safetensors

q plan $DATA/odd.safetensors -e int8

q plan $DATA/f16.safetensors -e fp4

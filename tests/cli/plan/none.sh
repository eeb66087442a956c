q plan $DATA/f32.safetensors -e none

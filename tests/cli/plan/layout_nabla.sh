q plan $DATA/f32.safetensors --layout nabla

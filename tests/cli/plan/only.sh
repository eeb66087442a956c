q plan $DATA/f32.safetensors --only 'down|head'

q plan $DATA/f32.safetensors -e int8 --block 64 --layout bitsandbytes

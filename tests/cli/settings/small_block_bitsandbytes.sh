encodings q plan $DATA/f32.safetensors --block 16 --scale dynamic8 --layout bitsandbytes

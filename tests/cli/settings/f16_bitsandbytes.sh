encodings q plan $DATA/f32.safetensors --scale f16 --layout bitsandbytes

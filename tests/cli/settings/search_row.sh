encodings q plan $DATA/f32.safetensors --encoding int8 --block row --search

encodings q plan $DATA/f32.safetensors --encoding mxfp4 --block row

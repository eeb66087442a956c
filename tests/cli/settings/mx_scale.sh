encodings q plan $DATA/f32.safetensors --encoding mxfp8 --scale f16

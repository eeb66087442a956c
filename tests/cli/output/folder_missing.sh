q quantize $DATA/f32.safetensors -o no/where/out.safetensors

q quantize $DATA/f32.safetensors -o a.safetensors --fake-tty -q

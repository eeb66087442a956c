# Not on a terminal: silence.
q quantize $DATA/f32.safetensors -o a.safetensors >/dev/null

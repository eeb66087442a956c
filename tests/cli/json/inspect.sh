q quantize $DATA/f32.safetensors -o a.safetensors -q
q inspect a.safetensors --json | check_json inspect files.0.metadata tensors.4.encoding tensors.4.block tensors.4.layout

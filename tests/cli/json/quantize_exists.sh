touch a.safetensors
q quantize $DATA/f32.safetensors -o a.safetensors --json | check_json quantize error.status error.exit error.file

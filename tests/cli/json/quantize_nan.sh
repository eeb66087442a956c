q quantize $DATA/nan.safetensors -o a.safetensors --json | check_json quantize error.status error.exit error.tensor error.offset

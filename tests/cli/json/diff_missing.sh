q diff $DATA/f32.safetensors nowhere.safetensors --json | check_json diff error.status error.exit

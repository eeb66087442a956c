q quantize $DATA/f32.safetensors -o a.safetensors -q
q dequantize a.safetensors -o b.safetensors --json | check_json dequantize summary.changed

echo precious >out.safetensors
q quantize $DATA/f32.safetensors -o out.safetensors -q --force
q verify out.safetensors

q quantize $DATA/f32.safetensors -o out.safetensors -q
ls -A

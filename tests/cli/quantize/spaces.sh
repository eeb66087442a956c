q quantize $DATA/f32.safetensors -o "my model.safetensors" -q
q verify "my model.safetensors"

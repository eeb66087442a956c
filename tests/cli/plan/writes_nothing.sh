q plan $DATA/f32.safetensors -o out.safetensors >/dev/null
ls -A

not_as_root
mkdir locked
chmod 555 locked
q quantize $DATA/f32.safetensors -o locked/out.safetensors

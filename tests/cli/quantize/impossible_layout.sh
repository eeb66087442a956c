q quantize $DATA/f32.safetensors -o out.safetensors -e int8 --block 64 --layout bitsandbytes || code=$?
ls -A
exit $code

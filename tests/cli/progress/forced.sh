q quantize $DATA/f32.safetensors -o a.safetensors --progress bar 2>err >/dev/null
test -s err && echo bar

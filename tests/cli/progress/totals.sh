# The last line has the totals that were reached, not the zeros of waiting for the disk.
q quantize $DATA/f32.safetensors -o a.safetensors --progress json 2>err >/dev/null
tail -n 1 err | grep -oE '"phase": "[a-z]*"|"tensors_(done|total)": [0-9]+|"bytes_total": [1-9]'

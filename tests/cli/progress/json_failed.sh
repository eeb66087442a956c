q quantize $DATA/nan.safetensors -o a.safetensors --progress json 2>&1 >/dev/null | grep -oE '"progress": "end"|"status": "[A-Z_]+"'

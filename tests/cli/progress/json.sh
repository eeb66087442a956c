q quantize $DATA/large.safetensors -o a.safetensors --progress json 2>err >/dev/null
while read -r line; do printf '%s' "$line" | python3 -m json.tool >/dev/null || echo "bad: $line"; done <err
head -n 1 err | grep -o '"progress": "continue"'
tail -n 1 err | grep -oE '"progress": "end"|"status": "OK"'

q plan $DATA/odd.safetensors -o x --json >a
check_json plan <a
grep -c '"free_bytes": [0-9]' a

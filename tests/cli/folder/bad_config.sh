cp -r $DATA/hf in
printf '{\n "a": 1,,\n}' >in/config.json
q quantize in -o out || echo $?
q plan in || echo $?
q quantize in/model.safetensors.index.json -o out -q
q verify in || echo $?

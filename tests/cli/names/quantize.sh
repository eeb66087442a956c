name=$(printf 'out\033[31m')
plain q quantize $DATA/evil/model.safetensors -e int8 -o "$name.safetensors" -v -j2 --isa scalar
plain q quantize $DATA/evil/model.safetensors -e int8 -o "$name.safetensors"
plain q dequantize $DATA/evil/double.safetensors -o out.safetensors
plain q dequantize "$name.safetensors" -o back.safetensors --progress json 2>&1 | grep -c '"OK"'

q diff $DATA/nan.safetensors $DATA/nan.safetensors | tail -n 1

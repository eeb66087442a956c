q diff $DATA/f32.safetensors $DATA/nan.safetensors --tolerance 10

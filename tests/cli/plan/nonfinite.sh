q plan $DATA/nan.safetensors --nonfinite keep

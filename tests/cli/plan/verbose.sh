q plan $DATA/nan.safetensors --nonfinite keep -v -j2 --isa scalar >/dev/null

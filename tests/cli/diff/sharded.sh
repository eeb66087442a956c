q quantize $DATA/sharded -o one.safetensors -qe none
q diff $DATA/sharded one.safetensors

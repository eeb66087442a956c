q quantize $DATA/sharded -o one.safetensors | figures
ls -A
q verify one.safetensors
q diff $DATA/sharded one.safetensors --tolerance 0.1 | tail -n 1

q quantize $DATA/sharded -o a -q
q verify $DATA/f32.safetensors $DATA/odd.safetensors $DATA/sharded a

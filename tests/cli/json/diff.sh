q quantize $DATA/f32.safetensors -o a.safetensors -q
q diff $DATA/f32.safetensors a.safetensors --json >a
echo $?
check_json diff tensors.1.b_stored tensors.1.within summary.beyond summary.within <a

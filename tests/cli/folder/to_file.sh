# One file cannot hold the others: they are told.
q quantize $DATA/hf -o out.safetensors -q --only q_proj
q quantize $DATA/hf -o out2.safetensors | figures | tail -n 1

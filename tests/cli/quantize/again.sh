# What is packed already stays so.
q quantize $DATA/f32.safetensors -o a.safetensors -q
q quantize a.safetensors -o b.safetensors | figures
q diff a.safetensors b.safetensors | tail -n 1

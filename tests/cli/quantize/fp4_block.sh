q quantize $DATA/bf16.safetensors -o out.safetensors -e fp4 --block 16 --layout nabla | figures
q verify out.safetensors
q diff $DATA/bf16.safetensors out.safetensors --tolerance 0.13

q quantize $DATA/odd.safetensors -o out.safetensors -e int8 | figures
q verify out.safetensors
q diff $DATA/odd.safetensors out.safetensors --tolerance 0.13

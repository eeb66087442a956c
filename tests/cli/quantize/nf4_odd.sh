q quantize $DATA/odd.safetensors -o out.safetensors -e nf4 | figures
q verify out.safetensors
q diff $DATA/odd.safetensors out.safetensors --tolerance 0.13

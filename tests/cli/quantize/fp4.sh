q quantize $DATA/f32.safetensors -o out.safetensors -e fp4 | figures
q verify out.safetensors
q diff $DATA/f32.safetensors out.safetensors --tolerance 0.13

q quantize $DATA/nan.safetensors -o out.safetensors --nonfinite keep | figures
q diff $DATA/nan.safetensors out.safetensors --tolerance 0.1

# Nothing is quantized: the tensors are the same.
q quantize $DATA/f32.safetensors -o out.safetensors -e none | figures
q diff $DATA/f32.safetensors out.safetensors

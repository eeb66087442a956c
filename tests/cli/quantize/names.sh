q quantize $DATA/names.safetensors -o out.safetensors -v -j2 --isa scalar | figures
q verify out.safetensors

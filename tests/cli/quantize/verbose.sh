q quantize $DATA/f32.safetensors -o out.safetensors -v -j 2 --isa scalar | figures

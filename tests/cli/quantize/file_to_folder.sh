q quantize $DATA/f32.safetensors -o out | figures
ls -A out
q verify out

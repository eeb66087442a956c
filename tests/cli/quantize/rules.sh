q quantize $DATA/f32.safetensors -o out.safetensors --rule 'q_proj=int8' --rule 'down=fp4:block=32' | figures
q inspect out.safetensors

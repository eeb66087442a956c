plain q quantize $DATA/f32.safetensors -o out.safetensors --search --importance $DATA/importance/good.safetensors
plain q verify out.safetensors

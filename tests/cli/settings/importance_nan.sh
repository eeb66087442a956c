plain q quantize $DATA/f32.safetensors -o out.safetensors --search --importance $DATA/importance/nan.safetensors
ls

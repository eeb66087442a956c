q diff $DATA/f32.safetensors $DATA/bf16.safetensors --tolerance 0.01

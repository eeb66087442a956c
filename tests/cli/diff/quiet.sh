codes q diff -q $DATA/f32.safetensors $DATA/f32.safetensors
codes q diff -q $DATA/f32.safetensors $DATA/bf16.safetensors
codes q diff -q $DATA/f32.safetensors $DATA/bf16.safetensors --tolerance 0.1
q diff -q $DATA/f32.safetensors $DATA/bf16.safetensors

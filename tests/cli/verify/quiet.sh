q verify -q $DATA/f32.safetensors
q verify -q $DATA/f32.safetensors $DATA/bad/hole.safetensors

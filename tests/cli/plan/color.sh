# Heads are bold when asked for.
q plan $DATA/f32.safetensors --color always | head -n 1 | od -c | head -n 1
NO_COLOR=1 q plan $DATA/f32.safetensors --color always | head -n 1 | od -c | head -n 1
q plan $DATA/f32.safetensors | head -n 1 | od -c | head -n 1

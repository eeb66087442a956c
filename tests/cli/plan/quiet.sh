# Notes go, data stays.
q plan $DATA/f32.safetensors --only nothing -q

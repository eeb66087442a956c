# A file that is not there is no verdict; the others are still checked.
q verify nowhere.safetensors $DATA/f32.safetensors $DATA/bad/hole.safetensors

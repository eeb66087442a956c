# Names cannot command the terminal.
q plan $DATA/names.safetensors

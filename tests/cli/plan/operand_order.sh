# Options may stand behind and before operands.
q plan -e fp4 $DATA/f32.safetensors --block 32 >a
q plan $DATA/f32.safetensors --block 32 -e fp4 | cmp - a

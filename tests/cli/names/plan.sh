plain q plan $DATA/evil/model.safetensors -e int8
plain q plan $DATA/evil/model.safetensors -e int8 --layout bitsandbytes
pattern=$(printf '\033.31mvil')
plain q plan $DATA/evil/model.safetensors --skip "$pattern"
plain q plan $DATA/evil/model.safetensors --rule "$pattern=int8" --rule "$pattern=fp4"
plain q plan $DATA/evil/model.safetensors --only "($pattern"
plain q plan $DATA/evil/encoding.safetensors

# A matrix of 128 values would be larger packed: it is kept, unless a rule
# names it.
q plan $DATA/grows.safetensors
q quantize $DATA/grows.safetensors -o out.safetensors | figures
q verify out.safetensors
q plan $DATA/grows.safetensors --rule lora=nf4

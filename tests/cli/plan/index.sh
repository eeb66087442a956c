q plan $DATA/sharded/model.safetensors.index.json

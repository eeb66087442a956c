q quantize $DATA/sharded/model.safetensors.index.json -o new/model.safetensors.index.json | figures
ls -A new
q verify new/model.safetensors.index.json

# A model that is quantized otherwise is refused, before any work.
cp -r $DATA/hf in
echo '{"quantization_config": {"quant_method": "gptq", "bits": 4}}' >in/config.json
q quantize in -o out || echo $?
q plan in -o out | tail -n 1
q quantize in -o copy -e none -q
cmp in/config.json copy/config.json
q quantize in/model.safetensors.index.json -o weights -q
ls . weights

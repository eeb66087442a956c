# What transformers cannot load gets no quantization_config, and says so.
q quantize $DATA/hf -o out --layout nabla | figures | tail -n 2
cmp $DATA/hf/config.json out/config.json
q verify out

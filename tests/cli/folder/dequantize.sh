# There and back: config.json is what it was.
q quantize $DATA/hf -o packed -q
q dequantize packed -o out | figures
cmp $DATA/hf/config.json out/config.json
cmp packed/1_Pooling/config.json out/1_Pooling/config.json

q quantize $DATA/sharded -o a -q
q dequantize a -o b -q
ls -A b
q verify b

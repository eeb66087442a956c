q dequantize x -o y --dtype fp16

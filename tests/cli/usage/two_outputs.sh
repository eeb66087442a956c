q quantize x -o y -o z

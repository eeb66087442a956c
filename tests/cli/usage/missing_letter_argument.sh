q quantize x -o

q quantize x -o -

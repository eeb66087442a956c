q quantize x -o ''

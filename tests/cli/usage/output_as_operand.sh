q quantize x y

q quantize x

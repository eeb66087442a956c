q quantize x -o y --dtype f32

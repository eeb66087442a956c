# Codes and scales survive the way through f32.
q quantize $DATA/f32.safetensors -o a.safetensors -q
q dequantize a.safetensors -o b.safetensors -q --dtype f32
q quantize b.safetensors -o c.safetensors -q
cmp a.safetensors c.safetensors && echo same

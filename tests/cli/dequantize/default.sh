# The dtype before packing.
q quantize $DATA/bf16.safetensors -o a.safetensors -q
q dequantize a.safetensors -o b.safetensors | figures
q inspect b.safetensors | tail -n 8

# The next step of what cannot be decoded here.
q dequantize $DATA/double.safetensors -o a.safetensors
q diff $DATA/double.safetensors $DATA/double.safetensors

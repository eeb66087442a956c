# Ten tensors that cannot be decoded, and how many more; all of them with -v.
q inspect $DATA/doubles.safetensors | tail -n 1
q inspect $DATA/doubles.safetensors -v 2>&1 | grep -c decoded:
q inspect $DATA/double.safetensors --tensor x.weight

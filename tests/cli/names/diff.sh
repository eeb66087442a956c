plain q diff $DATA/evil/model.safetensors $DATA/evil/other.safetensors
plain q diff $DATA/evil/double.safetensors $DATA/evil/double.safetensors

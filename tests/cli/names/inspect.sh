# Names cannot command the terminal, nor can what quotes them.
plain q inspect $DATA/evil/model.safetensors
plain q inspect $DATA/evil/double.safetensors -v
plain q inspect $DATA/evil/encoding.safetensors
evil=$(printf 'e\033[31mvil.weight')
plain q inspect $DATA/evil/encoding.safetensors --tensor "$evil"
plain q inspect $DATA/evil/model.safetensors --tensor "$evil"
plain q inspect $DATA/evil/model.safetensors --tensor "${evil}s"
plain q inspect $DATA/evil/double.safetensors --tensor "$evil" --color always | grep -c nabla-quant

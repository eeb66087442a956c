q plan $DATA/f32.safetensors --rule 'down=int8' --json | check_json plan totals.quantized totals.free_bytes tensors.0.action tensors.0.block tensors.2.encoding tensors.2.block tensors.2.rule

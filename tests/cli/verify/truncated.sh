q verify $DATA/bad/truncated.safetensors

# Infinite measures are null.
q diff $DATA/odd.safetensors $DATA/f32.safetensors --json | check_json diff tensors.0.problem summary.problems

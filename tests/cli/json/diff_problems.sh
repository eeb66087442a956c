# What was not compared has no figures.
q diff $DATA/odd.safetensors $DATA/f32.safetensors --json >a
check_json diff summary.problems tensors.0.problem tensors.0.max_abs tensors.0.mean_abs tensors.0.mean_rel tensors.0.rel_rmse tensors.0.cosine summary.worst_rel_rmse <a
q diff $DATA/f32.safetensors $DATA/f32.safetensors --json |
  check_json diff tensors.0.problem tensors.0.max_abs tensors.0.cosine summary.worst_rel_rmse

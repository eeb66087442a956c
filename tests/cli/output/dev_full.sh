# Every verb notices that its output is lost.
q plan $DATA/f32.safetensors >/dev/full || echo $?
q plan $DATA/f32.safetensors --json >/dev/full || echo $?
q inspect $DATA/f32.safetensors >/dev/full || echo $?
q verify $DATA/f32.safetensors >/dev/full || echo $?
q diff $DATA/f32.safetensors $DATA/f32.safetensors >/dev/full || echo $?
q --help >/dev/full || echo $?
q --version >/dev/full || echo $?

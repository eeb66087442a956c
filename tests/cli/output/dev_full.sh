# Every verb notices that its output is lost.
q plan $DATA/f32.safetensors >/dev/full || echo $?
q plan $DATA/f32.safetensors --json >/dev/full || echo $?
q inspect $DATA/f32.safetensors >/dev/full || echo $?
q verify $DATA/f32.safetensors >/dev/full || echo $?
q diff $DATA/f32.safetensors $DATA/f32.safetensors >/dev/full || echo $?
q --help >/dev/full || echo $?
q --version >/dev/full || echo $?
# After the commit the output stays, and the message says so.
q quantize $DATA/f32.safetensors -o a.safetensors >/dev/full || echo $?
q quantize $DATA/f32.safetensors -o b.safetensors --json >/dev/full || echo $?
q dequantize a.safetensors -o c.safetensors >/dev/full || echo $?
q quantize $DATA/sharded -o folder -v >/dev/full 2>err || echo $?
grep standard err
q verify a.safetensors b.safetensors c.safetensors folder -q && echo all verify
# Before the commit it does not.
q quantize $DATA/bad/hole.safetensors -o d.safetensors >/dev/full 2>err || echo $?
grep -c 'in place' err || :

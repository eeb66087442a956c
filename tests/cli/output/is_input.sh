code=0
cp $DATA/f32.safetensors a.safetensors
q quantize a.safetensors -o a.safetensors --force || code=$?
cmp a.safetensors $DATA/f32.safetensors
exit $code

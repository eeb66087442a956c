code=0
cp $DATA/f32.safetensors a.safetensors
ln a.safetensors b.safetensors
q quantize a.safetensors -o b.safetensors --force || code=$?
cmp b.safetensors $DATA/f32.safetensors
exit $code

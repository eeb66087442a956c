# Permissions are those of what is replaced, else of the input less umask.
umask 027
modes() { stat -c '%a %n' "$@"; }
cp $DATA/f32.safetensors in.safetensors
for mode in 600 400 644 666 640; do
  chmod $mode in.safetensors
  q quantize in.safetensors -o $mode.safetensors -q
  modes $mode.safetensors
done
chmod 644 in.safetensors
chmod 600 640.safetensors
q quantize in.safetensors -o 640.safetensors -q --force
q dequantize 640.safetensors -o dense.safetensors -q
modes 640.safetensors dense.safetensors
chmod 664 640.safetensors
q quantize in.safetensors -o 640.safetensors -q --force
modes 640.safetensors
mkdir in in/sub
cp in.safetensors in/model.safetensors
echo '{"dtype": "float32"}' >in/config.json
echo x >in/sub/x
chmod 600 in/model.safetensors in/sub/x
chmod 700 in
chmod 755 in/sub
q quantize in -o out -q
modes out out/model.safetensors out/config.json out/sub out/sub/x
chmod 775 out
chmod 755 in
chmod 600 out/config.json
chmod 664 out/model.safetensors
chmod 770 out/sub
q quantize in -o out -q --force
modes out out/model.safetensors out/config.json out/sub out/sub/x
chmod 400 in.safetensors
q quantize in.safetensors -o from_file -q
modes from_file from_file/model.safetensors

# What one written file lacks is told, once, and not with -q.
cp -r $DATA/sharded in
q quantize in -o b.safetensors >out
echo {} >in/config.json
q quantize in -o b.safetensors --force --json 2>&1 >out
check_json quantize <out
for name in vocab tokenizer merges; do echo {} >in/$name.json; done
mkdir in/onnx
q quantize in -o b.safetensors --force 2>&1 >out
q quantize in -o b -q
q dequantize b -o d.safetensors 2>&1 >out
q dequantize b -o e 2>&1 >out
q quantize in/model.safetensors.index.json -o f 2>&1 >out
q quantize in -o in/all.safetensors 2>&1 >out

# What a written copy lacks is told, once, and not with -q.
cp -r $DATA/sharded in
q quantize in -o a >out
echo {} >in/config.json
q quantize in -o b --json 2>&1 >out
check_json quantize <out
for name in vocab tokenizer merges; do echo {} >in/$name.json; done
mkdir in/onnx
q quantize in -o c 2>&1 >out
q dequantize b -o d 2>&1 >out
cp in/config.json b
q dequantize b -o d.safetensors 2>&1 >out
q quantize in -o q -q
q quantize in/model.safetensors.index.json -o e 2>&1 >out
q quantize in -o in/all.safetensors 2>&1 >out

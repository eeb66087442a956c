# LLM.int8 does not say what a weight was; config.json does. An option wins,
# and without config.json it is F32.
types() { q inspect "$1" | grep -E 'q_proj|down_proj.weight'; }
q quantize $DATA/hf -o packed -q -e int8
q dequantize packed -o out | figures
types out
q dequantize packed -o out.safetensors -q
types out.safetensors
q dequantize packed -o f16 -q --dtype f16
types f16
sed 's/"torch_dtype": "bfloat16"/"dtype": "float16"/' packed/config.json >c
mv c packed/config.json
q dequantize packed -o newer -q
types newer
q dequantize packed/model.safetensors.index.json -o index.safetensors -q
types index.safetensors
echo '{' >packed/config.json
codes q dequantize packed -o broken.safetensors

# Packed once more: what was there is described with what is new, and the type
# to compute in stays.
q quantize $DATA/hf -o a -q --skip q_proj
sed -i 's/"bnb_4bit_compute_dtype": "bfloat16"/"bnb_4bit_compute_dtype": "float16"/' a/config.json
q quantize a -o b | figures | tail -n 2
diff a/config.json b/config.json || :
q quantize a -o c -e none -q
cmp a/config.json c/config.json

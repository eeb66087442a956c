q quantize $DATA/hf -o out -q
sed -i 's/"bnb_4bit_quant_type": "nf4"/"bnb_4bit_quant_type": "fp4"/' out/config.json
q verify out || echo $?

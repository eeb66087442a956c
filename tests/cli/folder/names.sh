# Names that would command a terminal.
mkdir in
cp $DATA/f32.safetensors in/model.safetensors
echo x >"$(printf 'in/e\033[31mvil.txt')"
echo x >"$(printf 'in/e\033[31mvil.onnx')"
plain q plan in --only q_proj
plain q quantize in -o out -q
printf '{"quantization_config": {"quant_method": "g\\u001b[31mptq"}}' >in/config.json
plain q quantize in -o out2

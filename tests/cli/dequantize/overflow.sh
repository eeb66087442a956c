# f16 ends at 65504: the library proposes a wider dtype, the tool the option.
q quantize $DATA/wide.safetensors -o packed.safetensors -q --isa scalar
q dequantize packed.safetensors -o out.safetensors --dtype f16

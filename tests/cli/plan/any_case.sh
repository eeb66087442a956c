# Values of options are taken in any case.
q plan $DATA/f32.safetensors -e INT8 --layout Nabla --rule 'q_proj=Nf4:block=32' --nonfinite KEEP | cut -c 1-70
q quantize $DATA/f32.safetensors -o a.safetensors -q --isa SCALAR && q dequantize a.safetensors -o b.safetensors --dtype F16 -q

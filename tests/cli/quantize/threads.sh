# The bytes do not depend on threads or instruction set.
for j in 1 2 7; do q quantize $DATA/odd.safetensors -o $j.safetensors -qj$j; done
q quantize $DATA/odd.safetensors -o s.safetensors -q --isa scalar
cmp 1.safetensors 2.safetensors && cmp 1.safetensors 7.safetensors && cmp 1.safetensors s.safetensors && echo same

# The README's settings, presets and defaults have kernels made ahead of time; of
# what has none, the nearest that has.
for more in '-e int8 --block 128' '-e fp8' '-e nf4 --block 128' '--scale bf16' '-e int4 --zero-point' '-e mxfp8' '--preset small' '--preset balanced' '--preset best' '-e ternary' '-e fp8 --block tensor' '-e fp4 --block 16'; do
  echo "-- $more"
  q plan $DATA/f32.safetensors --only q_proj $more | sed -n '/^kernels/,$p'
done
q plan $DATA/odd.safetensors --json | grep -oE '"(kernel|nearest_kernel)": *[^,}]*' | sort | uniq -c
q plan $DATA/f32.safetensors --only q_proj -e fp4 --block 16 --json | grep -oE '"(kernel|nearest_kernel)": *[^,}]*' | sort | uniq -c

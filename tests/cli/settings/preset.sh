# A preset is settings; what is given beside it wins, one by one.
for more in 'small' 'balanced' 'best' 'balanced -e fp4 --block 64' 'small --scale f32' 'small -e mxfp4' 'best --block row --scale f32' 'best -e none'; do
  echo "-- $more"
  q plan $DATA/f32.safetensors --only q_proj --preset $more | sed -n '3p;/tensors quantized/p' | cut -c 1-110
  q plan $DATA/f32.safetensors --only q_proj --json --preset $more | grep -o '"search": *true' | head -n 1
done

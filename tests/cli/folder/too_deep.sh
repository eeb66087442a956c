mkdir -p in/1/2/3/4/5/6/7/8/9
cp $DATA/f32.safetensors in/model.safetensors
q quantize in -o out || echo $?

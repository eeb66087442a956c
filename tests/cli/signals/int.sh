# Stopped in the middle: nothing is left, and the shell sees the signal.
python3 "$HERE/interrupt.py" INT "$NABLA_QUANT" quantize $DATA/large.safetensors \
  -o out.safetensors -j1 --isa scalar --progress json
ls -A

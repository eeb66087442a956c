# The error object tells of the signal, too.
python3 "$HERE/interrupt.py" TERM "$NABLA_QUANT" quantize $DATA/large.safetensors \
  -o out.safetensors -j1 --isa scalar --progress json --json >out
head -n 1 out
tail -n 1 out | check_json quantize error.status error.exit

q quantize $DATA/hf -o out -q --rule q_proj=fp4
cmp $DATA/hf/config.json out/config.json
q plan $DATA/hf --rule q_proj=fp4 | tail -n 1

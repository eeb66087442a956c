q quantize $DATA/sharded -o out -q
q quantize $DATA/sharded -o out -q -e int8 --force
q inspect out | grep q_proj
ls -A

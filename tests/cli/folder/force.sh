# A folder that we wrote is exchanged for the next, sub-folders too.
q quantize $DATA/hf -o out -q
q quantize $DATA/hf -o out -q -e int8 --force
grep load_in_8bit out/config.json
q verify out
echo mine >out/1_Pooling/notes.txt
q quantize $DATA/hf -o out -q --force || echo $?
cat out/1_Pooling/notes.txt
ls -A

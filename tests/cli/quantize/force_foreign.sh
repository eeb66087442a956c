# A folder with other things in it is not replaced.
q quantize $DATA/sharded -o out -q
echo mine >out/notes.txt
q quantize $DATA/sharded -o out -q --force || code=$?
cat out/notes.txt
exit $code

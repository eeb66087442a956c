# A folder that holds a file of the input is never replaced.
cp -r $DATA/hf in
q quantize in -o out -q
ln -f out/tokenizer.json in/tokenizer.json
q quantize in -o out -q --force || echo $?
cmp $DATA/hf/tokenizer.json in/tokenizer.json

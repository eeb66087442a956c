# A folder that holds a file of the input is never replaced.
cp -r $DATA/hf in
q quantize in -o out -q
rm in/tokenizer.json
ln -s ../out/tokenizer.json in/tokenizer.json
q quantize in -o out -q --force || echo $?
cmp $DATA/hf/tokenizer.json in/tokenizer.json

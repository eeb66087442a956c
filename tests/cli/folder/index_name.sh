# The index must not take the name of a file that is copied.
q quantize $DATA/hf -o out/tokenizer.json || echo $?
ls

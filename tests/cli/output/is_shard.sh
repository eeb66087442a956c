code=0
cp -r $DATA/sharded in
q quantize in -o in/model-00001-of-00003.safetensors --force || code=$?
diff -r in $DATA/sharded && echo untouched
exit $code

code=0
cp -r $DATA/sharded in
q quantize in -o in --force || code=$?
diff -r in $DATA/sharded && echo untouched
exit $code

# An output inside the input does not go along with the next one.
cp -r $DATA/hf in
q quantize in -o in/q -q
q quantize in -o in/q -q --force
find in/q | LC_ALL=C sort

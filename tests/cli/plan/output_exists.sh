# plan warns of what quantize would refuse.
cp -r $DATA/sharded in
cp $DATA/f32.safetensors a.safetensors
ln a.safetensors b.safetensors
ln -s nowhere dangling.safetensors
mkdir empty full
: >full/x
for out in a.safetensors b.safetensors in/model-00001-of-00003.safetensors dangling.safetensors new.safetensors empty empty/model.safetensors.index.json full new new/model.safetensors.index.json full/model.safetensors.index.json; do
  echo "-- $out" >&2
  q plan a.safetensors -o $out >out
done
echo "-- folders" >&2
q plan in -o in >out
q plan in -o in/model.safetensors.index.json >out
q plan in -o in/model-00002-of-00003.safetensors --force >out
echo "-- force, quiet" >&2
q plan in -o full --force >out
q plan in -o full -q >out

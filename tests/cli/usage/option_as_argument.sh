# What follows an option that takes an argument is not another option: no folder
# called --json. Joined by "=", or as a path, it may begin with a dash.
for line in 'quantize in -o --json' 'quantize in --output --json' \
  'quantize in -e -q -o out' 'plan in --rule --skip' 'diff a b --tolerance --json'
do
  # shellcheck disable=SC2086 # words
  plain q $line | head -n 1
  # shellcheck disable=SC2086
  codes q $line
done
q quantize $DATA/f32.safetensors -o ./--json -q; ls
q quantize $DATA/f32.safetensors --output=--quiet -q; ls
q diff $DATA/f32.safetensors $DATA/f32.safetensors --tolerance -1 2>&1 | head -n 1

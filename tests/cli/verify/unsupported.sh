# A file that another version can decode is not wrong: 6, and 1 for a mix.
q verify $DATA/double.safetensors
echo $?
q verify $DATA/f32.safetensors $DATA/double.safetensors -q
echo $?
q verify $DATA/double.safetensors $DATA/bad/hole.safetensors $DATA/double.safetensors -q
echo $?
q verify $DATA/double.safetensors --json >a
echo $?
check_json verify files.0.ok files.0.problems.0.status <a

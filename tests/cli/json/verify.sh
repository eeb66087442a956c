q verify $DATA/f32.safetensors $DATA/bad/hole.safetensors --json >a
echo $?
check_json verify files.0.ok files.1.ok files.1.problems.0.offset <a

q verify nowhere.safetensors $DATA/f32.safetensors --json >a
echo $?
check_json verify files.0.ok files.1.ok error.exit <a

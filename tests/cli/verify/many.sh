# Ten problems, and how many more there are; all of them with -v or as JSON.
code=0
q verify $DATA/doubles.safetensors || code=$?
q verify $DATA/doubles.safetensors -q 2>&1 | tail -n 2
q verify $DATA/doubles.safetensors -v 2>&1 | grep -c decoded:
q verify $DATA/doubles.safetensors --json 2>err | check_json verify files.0.problems.12.tensor files.0.problems.12.next
exit $code

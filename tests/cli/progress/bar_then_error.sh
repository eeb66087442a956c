# The bar is wiped before the error is printed.
q quantize $DATA/nan.safetensors -o a.safetensors --fake-tty --color never -j1 2>err >/dev/null
tr '\r' '\n' <err | tail -n 1 | cat -v

# Files of other formats, and folders that hold them: what they are, and a command
# that converts them. A name that a shell would read otherwise is not put into it.
put() { printf "$1" >"$2"; head -c 700000 /dev/zero >>"$2"; }
mkdir -p numpy bin gguf empty cache/models--a--b/snapshots/0123abc \
  cache/models--a--b/blobs
put '\223NUMPY\001\000v\000' numpy/x.npy
put '\037\213\010\000\000\000\000\000\002\003' x.gz
put 'GGUF\003\000\000\000' gguf/model.gguf
put 'GGUF\003\000\000\000' "it's.gguf"
put '\200\002}q' bin/pytorch_model-00001-of-00002.bin
for path in numpy/x.npy x.gz gguf/model.gguf "it's.gguf" \
  bin/pytorch_model-00001-of-00002.bin numpy bin gguf/ empty cache \
  cache/models--a--b cache/models--a--b/; do
  q inspect "$path" 2>&1
  echo "exit $?"
done

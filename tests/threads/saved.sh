#!/bin/sh
# A saved program whose loops and products run in parallel gives the same results
# with one thread and with several, again and again. The program is made by a
# compiler that may be of another build; under ThreadSanitizer the runtime that
# runs it is looked at.
# usage: saved.sh NABLA_COMPILE NABLA_RUN NABLA_QUANT MAKE_CHECKPOINT
set -eu
compile=$1 run=$2 quant=$3 maker=$4
[ -x "$compile" ] || {
  echo "SKIP: no nabla-compile (NABLA_TEST_COMPILER)"
  exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
"$maker" --out dense --megabytes 1 --single-tensor --dtype f32 >/dev/null
"$quant" quantize -q dense -o packed -e nf4 --layout nabla

cat >program.mlir <<'END'
!w = !nabla.implicit<61x4096xf32, #nabla.nf4<block = 64>>
func.func @packed(%x: tensor<?x4096xf32> {nabla.name = "x"},
                  %w: !w {nabla.name = "w"})
    -> (tensor<?x61xf32>, tensor<?xf32>) {
  %y = nabla.dot_general %x, %w contracting = [1] x [1]
      : tensor<?x4096xf32>, !w
  %z = nabla.silu %y : tensor<?x61xf32>
  %r = nabla.reduce sum %x dims = [1] : tensor<?x4096xf32>
  return %z, %r : tensor<?x61xf32>, tensor<?xf32>
}
func.func @dense(%x: tensor<?x512xf32> {nabla.name = "x"},
                 %v: tensor<256x512xf32> {nabla.name = "v"})
    -> (tensor<?x256xf32>, tensor<512x?xf32>) {
  %y = nabla.dot_general %x, %v contracting = [1] x [1]
      : tensor<?x512xf32>, tensor<256x512xf32>
  %t = nabla.transpose %x permutation = [1, 0] : tensor<?x512xf32>
  %e = nabla.exp %t : tensor<512x?xf32>
  return %y, %e : tensor<?x256xf32>, tensor<512x?xf32>
}
END
"$compile" program.mlir -o program.so
for rows in 1 3 40; do
  for entry in packed dense; do
    if [ $entry = packed ]; then
      set -- -b "w=packed/model.safetensors:model.single.weight" \
        -i "x=random:${rows}x4096"
    else
      set -- -i "x=random:${rows}x512" -i v=random:256x512
    fi
    "$run" program.so -e $entry "$@" -j 1 -o a.npy -o b.npy
    for threads in 2 4; do
      "$run" program.so -e $entry "$@" -j $threads --repeat 20 \
        --expect a.npy --expect b.npy >out || {
        cat out
        echo "FAILED: $entry, $rows rows, $threads threads"
        exit 1
      }
    done
  done
done

#!/bin/bash
# opt_parallel.sh NABLA_OPT: passes over 300 functions, on several threads, give
# the IR and the diagnostics that they give on one.
set -euo pipefail
opt=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# A linear layer with what can be fused, and one op that no rule takes, each of
# another shape.
awk 'BEGIN {
  for (i = 0; i < 300; i++) {
    n = 8 + i % 16; k = 64 * (1 + i % 3)
    w = "!nabla.implicit<" n "x" k "xf32, #nabla.nf4<block = 64>>"
    y = "tensor<?x" n "xf32>"
    print "func.func @f" i "(%x: tensor<?x" k "xf32>, %w: " w ", %b: tensor<" \
      n "xf32>, %m: index) -> (" y ", tensor<" n "xf32>) {"
    print "  %t = nabla.transpose %w permutation = [1, 0] : " w
    print "  %u = nabla.transpose %t permutation = [1, 0] : !nabla.implicit<" \
      k "x" n "xf32, #nabla.nf4<block = 64>, view<" n "x" k \
      ", strides = [1, " k "], offset = 0>>"
    print "  %0 = nabla.dot_general %x, %u contracting = [1] x [1] : tensor<?x" \
      k "xf32>, " w
    print "  %1 = nabla.broadcast_in_dim %b dims = [1] sizes(%m) : tensor<" n \
      "xf32> -> " y
    print "  %2 = nabla.add %0, %1 : " y ", " y
    print "  %3 = nabla.silu %2 : " y
    print "  %4 = nabla.reduce sum %w dims = [1] : " w
    print "  return %3, %4 : " y ", tensor<" n "xf32>"
    print "}"
  }
}' >"$dir/in.mlir"

passes='nabla-simplify,nabla-dispatch,nabla-fuse,nabla-simplify,canonicalize'
pipeline="builtin.module(func.func($passes))"

# run NAME [ARGUMENT...]
run() {
  local name=$1
  shift
  "$opt" "$dir/in.mlir" --pass-pipeline="$pipeline" --remarks-filter='nabla.*' \
    "$@" -o "$dir/$name.mlir" 2>"$dir/$name.err" || {
    cat "$dir/$name.err"
    exit 1
  }
}

run one --mlir-disable-threading
[ "$(grep -c 'nabla.fused_dot' "$dir/one.mlir")" = 300 ]
[ "$(grep -c 'warning: .*nabla.reduce' "$dir/one.err")" = 300 ]
for _ in 1 2 3; do
  run many
  cmp "$dir/one.mlir" "$dir/many.mlir"
  # remarks come in any order, diagnostics in that of the functions
  diff <(grep warning: "$dir/one.err") <(grep warning: "$dir/many.err")
  diff <(sort "$dir/one.err") <(sort "$dir/many.err")
done
echo "300 functions, three times: equal"

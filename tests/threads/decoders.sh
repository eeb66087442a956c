#!/bin/sh
# Two language models and four conversations in one process: decoders.c. The
# programs are made by a compiler that may be of another build; under
# ThreadSanitizer the runtime that runs them is looked at.
# usage: decoders.sh NABLA_COMPILE DECODERS
set -eu
compile=$1 decoders=$2
[ -x "$compile" ] || {
  echo "SKIP: no nabla-compile (NABLA_TEST_COMPILER)"
  exit 77
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for number in 0 1; do
  "$decoders" text $number >"$work/$number.mlir"
  "$compile" "$work/$number.mlir" -o "$work/$number.so"
done
"$decoders" run "$work/0.so" "$work/1.so"

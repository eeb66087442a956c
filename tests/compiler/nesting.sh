#!/bin/sh
# Programs that are nested too deep are refused by a sentence, whatever nests.
# usage: nesting.sh PYTHON NABLA_OPT NABLA_COMPILE NABLA_RUN
set -u
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0

# program KIND N: N levels of it
program() {
  "$python" - "$1" "$2" <<'PROGRAM'
import sys
kind, n = sys.argv[1], int(sys.argv[2])
body = "func.func @f() -> tensor<1xi32> {\n%s  return %%c : tensor<1xi32>\n}\n"
one = "  %c = arith.constant dense<1> : tensor<1xi32>\n"
attribute = "module attributes {x.a = %s} {\n" + (
    body % one).replace("%", "%%") + "}\n"
print({
    "regions": lambda: body % (one + "  %p = arith.constant true\n" +
                               "scf.if %p {\n" * n + "}\n" * n),
    "attributes": lambda: attribute % ("[" * n + "]" * n),
    "types": lambda: attribute % ("tuple<" * n + ">" * n),
    "functions": lambda: attribute % ("(() -> " * n + "()" + ")" * n),
    "parentheses": lambda: attribute % (
        "affine_map<(d0) -> (" + "(" * n + "d0" + ")" * n + ")>"),
    "minus": lambda: attribute % (
        "affine_map<(d0) -> (" + "- " * n + "d0)>"),
    "sums": lambda: attribute % (
        "affine_map<(d0) -> (d0" + " + d0 * 2" * (n // 2) + ")>"),
    "locations": lambda: attribute % "1" + "#l = loc(" + "fused[" * n +
    "unknown" + "]" * n + ")\n",
    "elements": lambda: body % (
        "  %c = arith.constant dense<" + "[" * n + "1" + "]" * n +
        "> : tensor<1xi32>\n"),
}[kind]())
PROGRAM
}

python=$1 opt=$2 compile=$3 run=$4
cd "$folder" || exit 1

# use CASE PROGRAM: one of the tools with its options
use() {
  case $1 in
    opt) "$opt" -o o.mlir "$2" ;;
    opt_stdout) "$opt" -o - "$2" ;;
    compile) "$compile" -o o.o "$2" ;;
    run) "$run" --cache off "$2" ;;
  esac
}

for kind in regions attributes types functions parentheses minus sums \
    locations elements; do
  for levels in 1000 300000; do
    program $kind $levels >p.mlir
    for tool in opt opt_stdout compile run; do
      use $tool p.mlir >/dev/null 2>said
      code=$?
      if [ $code -eq 0 ] || [ $code -ge 128 ] ||
          ! grep -q 'more than \(256\|4096\)' said; then
        echo "FAILED $kind $levels: $tool: exit $code"
        head -c 300 said
        failed=1
      fi
    done
  done
  program $kind 20 >p.mlir
  "$opt" p.mlir >/dev/null 2>said
  if grep -q 'more than' said; then
    echo "FAILED $kind 20: refused"
    failed=1
  fi
done
exit $failed

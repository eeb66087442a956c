#!/bin/bash
# Programs that are nested too deep, or too long to be written out, are refused
# by a sentence, whatever nests; so is bytecode.
# usage: nesting.sh PYTHON NABLA_OPT NABLA_COMPILE NABLA_RUN MLIR_OPT
set -u
folder=$(mktemp -d) || exit 1
trap 'rm -rf "$folder"' EXIT
failed=0

# program KIND N: N levels of it
program() {
  "$python" - "$1" "$2" <<'PROGRAM'
import sys
kind, n = sys.argv[1], int(sys.argv[2])
body = "func.func @f() -> tensor<1xi32> {\n%s  return %%c : tensor<1xi32>%s\n}\n"
one = "  %c = arith.constant dense<1> : tensor<1xi32>\n"


def attribute(value, before="", after=""):
    return (before + "module attributes {x.a = " + value + "} {\n" +
            body % (one, after) + "}\n")


def chain(mark, first, each):
    """Each alias is the one before it in `each`."""
    lines = [f"{mark}0 = {first}\n"]
    for i in range(n):
        lines.append(f"{mark}{i + 1} = " + each.replace("@", f"{mark}{i}") +
                     "\n")
    return attribute(f"{mark}{n}", "".join(lines))


def locations():
    text = chain("#l", 'loc("a":1:1)', 'loc("b"(@))')
    return text.replace("x.a = #l%d" % n, "x.a = 1").replace(
        "return %c : tensor<1xi32>", "return %%c : tensor<1xi32> loc(#l%d)" % n)


print({
    "regions": lambda: body % (one + "  %p = arith.constant true\n" +
                               "scf.if %p {\n" * n + "}\n" * n, ""),
    "attributes": lambda: attribute("[" * n + "]" * n),
    "types": lambda: attribute("tuple<" * n + ">" * n),
    "functions": lambda: attribute("(() -> " * n + "()" + ")" * n),
    "parentheses": lambda: attribute(
        "affine_map<(d0) -> (" + "(" * n + "d0" + ")" * n + ")>"),
    "minus": lambda: attribute("affine_map<(d0) -> (" + "- " * n + "d0)>"),
    "sums": lambda: attribute(
        "affine_map<(d0) -> (d0" + " + d0 * 2" * (n // 2) + ")>"),
    "spaces": lambda: attribute(
        "affine_map  <(d0) -> (d0" + " + d0 * 2" * (n // 2) + ")>"),
    "remainders": lambda: attribute(
        "affine_map<(d0) -> (d0" + " mod 2" * n + ")>"),
    "subscripts": lambda: (
        "func.func @f(%m: memref<10xf32>, %i: index) -> f32 {\n"
        "  %v = affine.load %m[%i" + " + 1" * n + "] : memref<10xf32>\n"
        "  return %v : f32\n}\n"),
    "locations": lambda: attribute("1") + "#l = loc(" + "fused[" * n +
    "unknown" + "]" * n + ")\n",
    "elements": lambda: body % (
        "  %c = arith.constant dense<" + "[" * n + "1" + "]" * n +
        "> : tensor<1xi32>\n", ""),
    "aliases": lambda: chain("#a", "[1]", "[@]"),
    "alias_types": lambda: chain("!a", "tuple<i1>", "tuple<@>"),
    "alias_functions": lambda: chain("!a", "() -> ()", "() -> (@)"),
    "alias_structs": lambda: chain(
        "!a", "!llvm.struct<(i8)>", "!llvm.struct<(@)>"),
    "alias_locations": locations,
    "doubled": lambda: chain("#a", "[1]", "[@, @]"),
    "comments": lambda: attribute("// \r" + "[" * n + "]" * n + "\n"),
    "constants": lambda: (
        f"func.func @f() -> tensor<{n}xf32> {{\n"
        f"  %c = arith.constant dense<1.0> : tensor<{n}xf32>\n"
        f"  return %c : tensor<{n}xf32>\n}}\n"),
    "globals": lambda: (
        f'memref.global "private" constant @g : memref<{n}xf32> = dense<1.0>\n'
        "func.func @f(%i: tensor<index>) -> tensor<f32> {\n"
        "  %n = tensor.extract %i[] : tensor<index>\n"
        f"  %g = memref.get_global @g : memref<{n}xf32>\n"
        f"  %v = memref.load %g[%n] : memref<{n}xf32>\n"
        "  %t = tensor.from_elements %v : tensor<f32>\n"
        "  return %t : tensor<f32>\n}\n"),
    "calls": lambda: "".join(
        f"func.func private @f{i}(%n: index) -> (memref<?xf32>, memref<?xf32>)"
        f" {{\n  %a:2 = call @f{i + 1}(%n) : (index) -> (memref<?xf32>,"
        " memref<?xf32>)\n  %b = memref.alloc(%n) : memref<?xf32>\n"
        "  return %a#0, %b : memref<?xf32>, memref<?xf32>\n}\n"
        for i in range(n)) + (
        f"func.func private @f{n}(%n: index) -> (memref<?xf32>, memref<?xf32>)"
        " {\n  %a = memref.alloc(%n) : memref<?xf32>\n"
        "  %b = memref.alloc(%n) : memref<?xf32>\n"
        "  return %a, %b : memref<?xf32>, memref<?xf32>\n}\n"),
    "dimensions": lambda: attribute("tensor<" + "1x" * (n * 3) + "f32>"),
}[kind]())
PROGRAM
}

python=$1 opt=$2 compile=$3 run=$4 mlir_opt=$5
cd "$folder" || exit 1

# use CASE PROGRAM: one of the tools with its options
use() {
  case $1 in
    opt) "$opt" -o o.mlir "$2" ;;
    opt_stdout) "$opt" -o - "$2" ;;
    opt_bytecode) "$opt" --allow-bytecode -o o.mlir "$2" ;;
    compile) "$compile" -o o.o "$2" ;;
    run) "$run" --cache off "$2" ;;
  esac
}

# refused NAME TOOL PROGRAM WORDS: with a sentence that has the words
refused() {
  use "$2" "$3" >/dev/null 2>said
  code=$?
  if [ $code -eq 0 ] || [ $code -ge 128 ] || ! grep -q "$4" said; then
    echo "FAILED $1: $2: exit $code"
    head -c 300 said
    failed=1
  fi
}

# taken NAME PROGRAM: nabla-opt takes it
taken() {
  "$opt" "$2" >/dev/null 2>said
  code=$?
  if [ $code -ge 128 ] || grep -q 'more than' said; then
    echo "FAILED $1: exit $code"
    head -c 300 said
    failed=1
  fi
}

limits='more than \(256\|4096\|1073741824\)'
for kind in regions attributes types functions parentheses minus sums spaces \
    remainders subscripts locations elements aliases alias_types \
    alias_functions alias_structs alias_locations doubled comments \
    dimensions; do
  program $kind 30000 >p.mlir
  refused "$kind" opt p.mlir "$limits"
  refused "$kind" run p.mlir "$limits"
  case $kind in types | aliases)
    refused "$kind" opt_stdout p.mlir "$limits"
    refused "$kind" compile p.mlir "$limits"
    ;;
  esac
  levels=100
  [ $kind = doubled ] && levels=15
  program $kind $levels >p.mlir
  taken "$kind $levels" p.mlir
done

# Functions that call each other, the last of which allocates.
program calls 10000 >p.mlir
if ! "$opt" --ownership-based-buffer-deallocation --nabla-split-deallocs \
    p.mlir -o o.mlir 2>said; then
  echo "FAILED calls"
  head -c 300 said
  failed=1
fi

# What stands behind the last alias is no part of it.
{ echo '#a = [1]'
  for _ in 1 2 3; do program attributes 100; done; } >p.mlir
taken 'behind an alias' p.mlir

# Rules are read by the same parser.
program aliases 30000 >rules.pdl.mlir
program types 1 >p.mlir
"$opt" --rules rules.pdl.mlir --nabla-dispatch p.mlir >/dev/null 2>said
code=$?
if [ $code -ne 1 ] || ! grep -q "$limits" said; then
  echo "FAILED rules: exit $code"
  head -c 300 said
  failed=1
fi

# Constants that would be larger than any text of them.
for kind in constants globals; do
  program $kind 100000000000 >p.mlir
  refused $kind run p.mlir 'constants larger than 1073741824 bytes'
  refused $kind compile p.mlir 'constants larger than 1073741824 bytes'
  program $kind 1000 >p.mlir
  if ! "$compile" -o o.o p.mlir 2>said; then
    echo "FAILED $kind 1000"
    head -c 300 said
    failed=1
  fi
done

# ---- bytecode ----

program attributes 20 >p.mlir
"$opt" p.mlir -o plain.mlir || failed=1
"$opt" --emit-bytecode p.mlir -o p.mlirbc || failed=1
for tool in opt opt_stdout compile run; do
  refused 'bytecode' $tool p.mlirbc 'bytecode, which is not read'
done
{ cat p.mlir; printf '// -----\n'; cat p.mlirbc; } >split.mlir
"$opt" --split-input-file split.mlir >/dev/null 2>said
if [ $? -ne 1 ] || ! grep -q 'bytecode, which is not read' said; then
  echo 'FAILED bytecode behind a mark'
  failed=1
fi
if ! "$opt" --allow-bytecode p.mlirbc -o again.mlir ||
    ! cmp plain.mlir again.mlir; then
  echo 'FAILED --allow-bytecode'
  failed=1
fi
if ! "$opt" --allow-bytecode - <p.mlirbc >again.mlir ||
    ! cmp plain.mlir again.mlir; then
  echo 'FAILED --allow-bytecode of standard input'
  failed=1
fi

# What nests too deep for MLIR's own reader: made with the stack that it takes.
for kind in regions attributes alias_types alias_locations; do
  levels=20000
  [ $kind = regions ] && levels=4000
  program $kind $levels >p.mlir
  (ulimit -s unlimited && "$mlir_opt" --emit-bytecode p.mlir -o p.mlirbc) ||
    { echo "FAILED $kind: no bytecode"; failed=1; }
  refused "bytecode $kind" opt p.mlirbc 'bytecode, which is not read'
  refused "bytecode $kind" run p.mlirbc 'bytecode, which is not read'
  refused "bytecode $kind" opt_bytecode p.mlirbc "ended by signal\|$limits"
done
exit $failed

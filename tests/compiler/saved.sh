#!/bin/bash
# Programs saved as libraries and as objects with a header: run without a
# compiler, compared with nabla-run; refused by sentence where they cannot be.
# usage: saved.sh FOLDER_OF_PROGRAMS EXAMPLE PYTHON SOURCE_OF_TEST [SANITIZER]
set -u
bin=$1 saved=$2 python=$3 source=$4 sanitize=${5-}
compile=$bin/nabla-compile
run=$bin/nabla-run
[ -x "$compile" ] && [ -x "$run" ] && [ -x "$saved" ] || exit 77
for program in cc c++ nm readelf; do
  command -v $program >/dev/null || { echo "SKIP: no $program"; exit 77; }
done
"$python" -c 'import numpy' 2>/dev/null || {
  echo "skipped: $python has no numpy"
  exit 77
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir tmp
export TMPDIR="$work/tmp" NABLA_CACHE="$work/cache"
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# expect CODE PATTERN COMMAND...: exit code, and a line of what is printed
expect() {
  local code=$1 pattern=$2
  shift 2
  "$@" >out 2>err </dev/null
  local got=$?
  [ $got -eq "$code" ] || { fail "exit $got, not $code: $*"; cat err; }
  [ -z "$pattern" ] || cat out err | grep -q -e "$pattern" || { fail "no '$pattern': $*"; cat out err; }
}

cat >linear.mlir <<'EOF'
!w = !nabla.implicit<37x192xf32, #nabla.nf4<block = 64>>
func.func @linear(%x: tensor<?x192xf32> {nabla.name = "x"},
                  %w: !w {nabla.name = "w"},
                  %b: tensor<37xf32> {nabla.name = "double"}) -> tensor<?x37xf32> {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x192xf32>, !w
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?x192xf32>
  %bias = nabla.broadcast_in_dim %b dims = [1] sizes(%m)
      : tensor<37xf32> -> tensor<?x37xf32>
  %z = nabla.add %y, %bias : tensor<?x37xf32>, tensor<?x37xf32>
  return %z : tensor<?x37xf32>
}
func.func @looked(%i: tensor<?xi64> {nabla.name = "i"}, %e: !w {nabla.name = "e"},
                  %w: !w {nabla.name = "w"}) -> tensor<?x37xf32> {
  %x = nabla.gather %e, %i offset_dims = [1] collapsed_dims = [0] index_map = [0]
      vector_dim = 1 sizes = [1, 192] : !w, tensor<?xi64>
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x192xf32>, !w
  return %y : tensor<?x37xf32>
}
func.func @several(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>, %i: tensor<4xi32>)
    -> (tensor<?x8xf32>, tensor<?xf32>, tensor<8x?xf32>, tensor<4xi32>) {
  %s = nabla.add %x, %y : tensor<?x8xf32>, tensor<?x8xf32>
  %r = nabla.reduce sum %s dims = [1] : tensor<?x8xf32>
  %t = nabla.transpose %s permutation = [1, 0] : tensor<?x8xf32>
  %q = nabla.div %i, %i : tensor<4xi32>, tensor<4xi32>
  return %s, %r, %t, %q : tensor<?x8xf32>, tensor<?xf32>, tensor<8x?xf32>, tensor<4xi32>
}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @nothing() { return }
func.func @names(%a: tensor<?xf32> {nabla.name = "x_0"}, %b: tensor<?xf32> {nabla.name = "x"},
    %c: tensor<4xf32> {nabla.name = "*/ int main;"}, %d: tensor<4xf32> {nabla.name = "x "},
    %e: tensor<4xf32> {nabla.name = "for"}, %f: tensor<4xf32> {nabla.name = "__y"}) -> tensor<4xf32> {
  return %c : tensor<4xf32>
}
EOF
cat >dense.mlir <<'EOF'
func.func @f(%x: tensor<?x4xf32> {nabla.name = "x"}) -> tensor<?x4xf32> {
  %y = nabla.silu %x : tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
EOF
printf 'func.func @"a-b"(%%x: tensor<4xf32>) -> tensor<4xf32> {\n  return %%x : tensor<4xf32>\n}\n' >dash.mlir
cat >call.mlir <<'EOF'
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nabla.custom_call @nabla.check_finite(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
EOF

# ---- libraries ----
expect 0 '' "$compile" linear.mlir -o linear.so
expect 0 '' "$compile" linear.mlir --emit so -o other.bin
cmp linear.so other.bin || fail 'the same program gives other bytes'
"$compile" linear.mlir --emit so >stdout.so || fail 'a library on standard output'
cmp linear.so stdout.so || fail 'the library differs by where it goes'
nm -D -u linear.so | grep -v -w -e memcpy -e memmove -e memset &&
  fail 'the library needs more'
nm -D --defined-only linear.so |
  grep -v -e nabla_entry_ -e nabla_manifest -e " _e" -e __bss_start &&
  fail 'the library shows more'
readelf -d linear.so | grep NEEDED && fail 'the library needs a library'
expect 0 '' "$run" dense.mlir -i x=random:3x4 -o y.npy
expect 0 '' "$compile" dense.mlir -o dense.so
expect 0 'ok' "$run" dense.so -i x=random:3x4 --expect y.npy
expect 0 'open ' "$run" dense.so -i x=random:3x4 --time
expect 0 'open_ms' "$run" dense.so -i x=random:3x4 --json
for option in target=native numerics=f32 policy=warn rules=r cache=off; do
  expect 2 "--${option%=*} is for programs that are compiled" \
    "$run" dense.so -i x=random:3x4 --"$option"
done
expect 4 'none.so' "$run" none.so
cp dense.mlir text.so
expect 3 'no saved program' "$run" text.so
cp dense.so nosuffix
expect 0 '' "$run" nosuffix -i x=random:3x4
printf x | dd of=nosuffix bs=1 seek=3000 conv=notrunc 2>/dev/null
expect 3 'damaged' "$run" nosuffix -i x=random:3x4

# no compiler in a process that runs one
expect 0 'in .* ms' "$saved" dense.so
LD_DEBUG=libs "$saved" dense.so 2>libraries >out || fail 'the example'
if grep -E 'libLLVM|libMLIR|libnabla' libraries; then
  fail 'a compiler is loaded'
fi
readelf -d "$saved" | grep -E 'NEEDED.*(LLVM|MLIR|stdc)' && fail 'it is linked'

# nor in nabla-run, which becomes another program for text
LD_DEBUG=files "$run" dense.so -i x=random:3x4 --expect y.npy 2>libraries >out ||
  fail 'a saved program'
grep -q 'libc.so' libraries || fail 'LD_DEBUG lists no libraries'
if grep -E 'libLLVM|libMLIR|libstdc' libraries; then
  fail 'nabla-run loads a compiler'
fi
mkdir alone
cp "$run" alone/nabla-run
expect 0 'ok' alone/nabla-run dense.so -i x=random:3x4 --expect y.npy
expect 6 'not installed beside nabla-run' alone/nabla-run dense.mlir -i x=random:3x4
expect 6 'not installed beside nabla-run' alone/nabla-run --batch
expect 6 '"next": "install it' alone/nabla-run dense.mlir --json
ln -s /dev/null alone/nabla-run-compiler
expect 4 'cannot start the compiler: Permission denied' alone/nabla-run dense.mlir
rm alone/nabla-run-compiler
ln -s "$bin/nabla-run-compiler" alone
ln -s alone/nabla-run linked
expect 0 'ok' ./linked dense.mlir -i x=random:3x4 --expect y.npy
mkfifo pipe
cat dense.mlir >pipe &
"$run" pipe -i x=random:3x4 --expect y.npy >out 2>err ||
  { fail 'a program of a pipe'; cat err; }

# linkers: cc when there is no other; none; one that fails
tools=$work/tools
mkdir "$tools" "$tools/cc" "$tools/none" "$tools/bad"
ln -s "$(command -v cc)" "$tools/cc/cc"
printf '#!/bin/sh\necho "linker: out of luck" >&2\nexit 3\n' >"$tools/bad/ld.lld-22"
chmod +x "$tools/bad/ld.lld-22"
for program in as ld; do ln -s "$(command -v $program)" "$tools/cc/$program"; done
expect 0 '' env PATH="$tools/cc" "$compile" dense.mlir -o cc.so
expect 0 'ok' "$run" cc.so -i x=random:3x4 --expect y.npy
expect 6 'neither ld.lld-22 nor cc is in PATH; install one' \
  env PATH="$tools/none" "$compile" dense.mlir -o none.so
# cc links for this machine alone
foreign=aarch64
[ "$(uname -m)" != aarch64 ] || foreign=
if [ -z "$foreign" ] ||
  ! "$compile" dense.mlir --target $foreign -o foreign.o 2>err; then
  echo "no programs for another machine: $(cat err)"
else
  expect 6 'for another machine needs the linker ld.lld-22, which is not in PATH' \
    env PATH="$tools/cc" "$compile" dense.mlir --target $foreign -o none.so
fi
expect 4 'ld.lld-22 cannot link the program: linker: out of luck' \
  env PATH="$tools/bad" "$compile" dense.mlir -o none.so
expect 0 '' env TMPDIR="$work/missing" "$compile" dense.mlir -o missing.so
[ ! -e none.so ] || fail 'a library was left behind'
[ -z "$(ls "$work/tmp")" ] || fail "temporary files: $(ls "$work/tmp")"

# ---- objects with a header ----
expect 0 '' "$compile" linear.mlir -o linear.o --header linear.h
expect 0 '' "$compile" dense.mlir -o dense.o --header dense.h
expect 2 'a-b. is no name in C' "$compile" dash.mlir -o dash.o --header dash.h
expect 2 'goes with an object' "$compile" dense.mlir -o x.so --header x.h
expect 2 'goes with an object' "$compile" dense.mlir --header x.h
expect 2 'are one file' "$compile" dense.mlir -o x.o --header x.o
expect 2 'would be replaced' "$compile" dense.mlir -o x.o --header dense.mlir
expect 2 "'9x' is no name" "$compile" dense.mlir -o x.o --header 9x.h
expect 2 "'for' is no name" "$compile" dense.mlir -o x.o --header for.h
"$compile" call.mlir -o call.o --header call.h 2>err && fail 'a custom call'
grep -q 'no place for handlers' err || { fail 'custom calls'; cat err; }
for left in dash.o dash.h x.o x.h call.o call.h; do
  [ ! -e $left ] || fail "$left was left behind"
done
nm -u linear.o dense.o | grep ' U ' |
  grep -v -w -e memcpy -e memmove -e memset && fail 'the objects need more'

# what nabla-run computes, for the test to compare with
"$python" - <<'EOF' || fail 'numpy'
import json, struct
import numpy as np
rng = np.random.default_rng(1)
w = rng.standard_normal((37, 192)).astype("f4")
head = json.dumps({"a.w.weight": {"dtype": "F32", "shape": [37, 192],
                         "data_offsets": [0, w.nbytes]}}).encode()
head += b" " * (-len(head) % 8)
open("m.safetensors", "wb").write(struct.pack("<Q", len(head)) + head +
                                  w.tobytes())
b = (np.arange(37, dtype="f4") - 18) / 4
np.save("b.npy", b)
for rows in (1, 3, 37):
    i = np.arange(rows * 192)
    np.save(f"x{rows}.npy", (((i * 7) % 64 - 32) / 16).astype("f4")
            .reshape(rows, 192))
EOF
"$bin/nabla-quant" quantize -q m.safetensors -o q.safetensors --only weight \
  --layout nabla || fail quantize
for rows in 1 3 37; do
  # objects do not use AMX, which adds in another order
  expect 0 '' "$run" linear.mlir -e linear -b w=q.safetensors:a.w.weight -i double=b.npy \
    -i x=x$rows.npy -o o$rows.npy --target native,-amx-bf16
  expect 0 '' "$run" linear.mlir -e linear -b w=q.safetensors:a.w.weight -i double=b.npy \
    -i x=x$rows.npy -o y$rows.npy
  expect 0 ok "$run" linear.so -e linear -b w=q.safetensors:a.w.weight -i double=b.npy \
    -i x=x$rows.npy --expect y$rows.npy
done
# other numerics: instructions that a process must ask for, AMX, among them
for numerics in bf16 int8; do
  expect 0 '' "$compile" linear.mlir --numerics $numerics -o $numerics.so
  for rows in 3 37; do
    expect 0 '' "$run" linear.mlir --numerics $numerics -e linear -o $numerics.npy \
      -b w=q.safetensors:a.w.weight -i double=b.npy -i x=x$rows.npy
    expect 0 ok "$run" $numerics.so -e linear -b w=q.safetensors:a.w.weight \
      -i double=b.npy -i x=x$rows.npy --expect $numerics.npy
    "$python" - y$rows.npy $numerics.npy <<'EOF' || fail "$numerics differs from f32"
import sys
import numpy as np
f32, got = (np.load(name) for name in sys.argv[1:])
sys.exit(not np.abs(got - f32).max() <= .02 * np.abs(f32).max())
EOF
  done
done
"$python" - <<'EOF' || fail 'the weight as C'
import json, struct
import numpy as np
data = open("q.safetensors", "rb").read()
size, = struct.unpack("<Q", data[:8])
head = json.loads(data[8:8 + size])
def raw(name):
    begin, end = head[name]["data_offsets"]
    return data[8 + size + begin:8 + size + end]
codes = next(raw(n) for n in head if n != "__metadata__" and
             head[n]["dtype"] == "U8" and len(raw(n)) == 37 * 96)
scales = next(raw(n) for n in head if n != "__metadata__" and
              head[n]["dtype"] == "F32" and len(raw(n)) == 37 * 3 * 4)
def array(f, type, name, values):
    print(f"static const {type} {name}[] = {{{', '.join(values)}}};", file=f)
with open("data.h", "w") as f:
    array(f, "unsigned char", "codes", [str(c) for c in codes])
    array(f, "unsigned", "scales", [f"{v}u" for v in
                                    np.frombuffer(scales, "<u4")])
    for rows in (1, 3, 37):
        y = np.load(f"o{rows}.npy").reshape(-1).view("u4")
        array(f, "unsigned", f"y{rows}", [f"{v}u" for v in y])
EOF
flags=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -O1 -I.)
[ -z "$sanitize" ] || flags+=("-fsanitize=$sanitize")
cp "$source" user.c
cp "$source" user.cpp
cc -std=c17 "${flags[@]}" user.c linear.o dense.o -pthread -o user_c ||
  fail 'C17'
c++ -std=c++17 "${flags[@]}" user.cpp linear.o dense.o -pthread -o user_cpp ||
  fail 'C++17'
for program in ./user_c ./user_cpp; do
  $program || fail "$program"
done
printf '#include "linear.h"\n#include "dense.h"\nint dummy;\n' >both.c
cc -std=c17 -Wall -Wextra -Wpedantic -Werror -c both.c -o both.o || fail both
cc -std=c17 -O2 -c user.c -I. -o user.o &&
  nm -u user.o | grep -v -e nabla_entry_ | grep -v -w -e malloc -e free -e memcpy \
    -e memset -e memcmp -e printf -e puts -e pthread_create -e pthread_join \
    -e __stack_chk_fail -e abort -e _GLOBAL_OFFSET_TABLE_ -e user.o: -e '^$' \
    -e aligned_alloc && fail 'the header needs more than libc'

[ $failures -eq 0 ] && echo 'saved programs are as they should be'
exit $((failures > 0))

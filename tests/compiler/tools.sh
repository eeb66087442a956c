#!/bin/sh
# nabla-compile and nabla-run as people call them: exit codes, what is printed,
# results against numpy, and that objects stand on their own.
# usage: tools.sh FOLDER_OF_PROGRAMS PYTHON
set -u
bin=$1
python=$2
compile=$bin/nabla-compile
run=$bin/nabla-run
quant=$bin/nabla-quant
[ -x "$compile" ] && [ -x "$run" ] && [ -x "$quant" ] || exit 77
"$python" -c 'import numpy' 2>/dev/null || {
  echo "skipped: $python has no numpy"
  exit 77
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
export NABLA_CACHE="$work/cache"
unset NABLA_COLOR
failures=0

fail() {
  echo "FAILED: $*"
  failures=$((failures + 1))
}

# expect CODE PATTERN COMMAND...: exit code, and a line of what is printed
expect() {
  code=$1
  pattern=$2
  shift 2
  "$@" >out 2>err </dev/null
  got=$?
  [ $got -eq "$code" ] || {
    fail "exit $got, not $code: $*"
    cat err
  }
  [ -z "$pattern" ] || cat out err | grep -q -- "$pattern" || {
    fail "no '$pattern': $*"
    cat out err
  }
}

# help of each tool speaks of that tool alone; as JSON it has the same options
for tool in "$compile" "$run"; do
  expect 0 'The input is valid, but not supported' "$tool" --help
  ! grep -q 'diff:\|verify:\|from verify' out ||
    fail "$tool --help speaks of another tool's verbs"
  expect 2 "'--help' looks like another option" "$tool" x.mlir --policy --help
done
expect 0 '"tool": "nabla-run"' "$run" --help --json
"$python" -c 'import json, sys
names = [row["name"] for row in json.load(open("out"))["options"]]
text = open(sys.argv[1]).read()
sys.exit(any("--" + name not in text for name in names) or "json" not in names)
' /dev/stdin <<END || fail "nabla-run --help --json"
$("$run" --help)
END

cat >linear.mlir <<'EOF'
func.func @linear(%x: tensor<?x256xf32> {nabla.name = "x"}, %w: !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>> {nabla.name = "w"}, %b: tensor<128xf32> {nabla.name = "b"}) -> tensor<?x128xf32> {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x256xf32>, !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
  %r = nabla.relu %y : tensor<?x128xf32>
  return %r : tensor<?x128xf32>
}
EOF
cat >many.mlir <<'EOF'
func.func @sum(%x: tensor<?x8xf32>, %y: tensor<?x8xf32>) -> (tensor<?x8xf32>, tensor<?xf32>) {
  %s = nabla.add %x, %y : tensor<?x8xf32>, tensor<?x8xf32>
  %r = nabla.reduce sum %s dims = [1] : tensor<?x8xf32>
  return %s, %r : tensor<?x8xf32>, tensor<?xf32>
}
func.func @silu(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  %y = nabla.silu %x : tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
func.func @same(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}
func.func @nothing() { return }
EOF
cat >halves.mlir <<'EOF'
func.func @signs(%x: tensor<?xf16>, %y: tensor<?xf16>) -> (tensor<?xf16>, tensor<?xf16>, tensor<?xf16>) {
  %a = nabla.erf %x : tensor<?xf16>
  %b = nabla.tanh %y : tensor<?xf16>
  %c = nabla.mod %x, %y : tensor<?xf16>, tensor<?xf16>
  return %a, %b, %c : tensor<?xf16>, tensor<?xf16>, tensor<?xf16>
}
EOF
printf 'func.func @f( {' >bad.mlir

# ---- nabla-compile ----
expect 0 'usage: nabla-compile' "$compile" --help
expect 0 'nabla-compile [0-9]' "$compile" --version
expect 2 'a program is missing' "$compile"
expect 2 'more than one program' "$compile" a b
expect 2 "did you mean '--target'" "$compile" --targt native linear.mlir
expect 2 'needs an argument' "$compile" linear.mlir --emit
expect 2 "did you mean 'asm'" "$compile" linear.mlir --emit asn
expect 2 'two outputs' "$compile" linear.mlir -o a -o b
expect 2 'unknown CPU' "$compile" linear.mlir -o a.o --target pentium9
expect 4 'none.mlir' "$compile" none.mlir
expect 1 'bad.mlir:1:14: error' "$compile" bad.mlir -o a.o
expect 4 'nowhere' "$compile" linear.mlir -o nowhere/a.o
[ ! -e a.o ] || fail 'a failed compilation left its output'
for kind in mlir llvm asm; do
  expect 0 nabla_entry_linear "$compile" linear.mlir --emit $kind
done
"$compile" - --emit asm <linear.mlir >stdin.s || fail 'standard input'
grep -q nabla_entry_linear stdin.s || fail 'assembly of standard input'
expect 0 '' "$compile" linear.mlir -o linear.o
"$compile" linear.mlir >stdout.o || fail 'an object on standard output'
cmp -s linear.o stdout.o || fail 'the object differs by where it goes'
expect 0 '' "$compile" linear.mlir -o linear.o # replaces
"$compile" linear.mlir --emit asm >/dev/full 2>err && fail 'a full disk'
grep -q 'No space left on device' err || fail 'a full disk has no reason'
"$python" - "$compile" <<'EOF' || fail 'an object went to a terminal'
import os, pty, subprocess, sys
main, side = pty.openpty()
p = subprocess.run([sys.argv[1], "linear.mlir"], stdout=side,
                   stderr=subprocess.PIPE, text=True)
sys.exit(not (p.returncode == 2 and "nothing for a terminal" in p.stderr))
EOF

expect 2 'features are chosen for x86 only' "$compile" linear.mlir -o a.o \
  --target aarch64,+sve
expect 2 "unknown CPU 'aarch65'.*; and no-amx, aarch64" "$compile" linear.mlir -o a.o \
  --target aarch65

# ---- objects stand on their own ----
targets='native x86-64 x86-64-v3 x86-64-v4'
if "$compile" many.mlir -o a.o --target aarch64 2>err; then
  targets="$targets aarch64"
else
  grep -q 'LLVM was built without code for aarch64' err || { fail aarch64; cat err; }
  echo 'SKIP: this LLVM has no AArch64'
fi
for target in $targets; do
  for program in linear many halves; do
    "$compile" $program.mlir -o $program.o --target "$target" ||
      fail "$program for $target"
    nm -u $program.o | grep -v -w -e memcpy -e memmove -e memset &&
      fail "$program.o for $target has undefined symbols"
    extra=$(nm -g --defined-only $program.o | grep -v -e nabla_entry_ \
      -e nabla_manifest)
    [ -z "$extra" ] || fail "$program.o for $target shows $extra"
  done
done

# ---- nabla-run ----
case $targets in *aarch64)
  expect 6 'another kind of machine than this one; write a file for it' \
    "$run" many.mlir -e nothing --target aarch64
  "$compile" linear.mlir --emit asm --target aarch64 >linear.s || fail 'aarch64'
  grep -q 'fmla.*\.4s' linear.s || fail 'no vectors of AArch64'
  if command -v ld.lld-22 >/dev/null; then
    "$compile" many.mlir -o other.so --target aarch64 || fail 'a library of aarch64'
    expect 6 'is for aarch64-unknown-linux-gnu; this is .*; compile it for this machine' \
      "$run" other.so -e nothing
  else
    echo 'skipped: a library of aarch64: no ld.lld-22'
    expect 6 'needs the linker ld.lld-22, which is not in PATH' \
      "$compile" many.mlir -o other.so --target aarch64
  fi ;;
esac
"$python" - <<'EOF' || fail 'numpy'
import json, struct
import numpy as np
rng = np.random.default_rng(1)
w = rng.standard_normal((128, 256)).astype("f4")
head = json.dumps({"a.w.weight": {"dtype": "F32", "shape": [128, 256],
                                  "data_offsets": [0, w.nbytes]}}).encode()
head += b" " * (-len(head) % 8)
open("m.safetensors", "wb").write(struct.pack("<Q", len(head)) + head +
                                  w.tobytes())
for rows in (0, 1, 3, 17):
    np.save(f"x{rows}.npy", rng.standard_normal((rows, 256)).astype("f4"))
np.save("b.npy", np.zeros(128, "f4"))
np.save("p.npy", rng.standard_normal((3, 8)).astype("f4"))
np.save("q.npy", rng.standard_normal((3, 8)).astype("f4"))
np.save("short.npy", rng.standard_normal((2, 8)).astype("f4"))
np.save("wide.npy", rng.standard_normal((3, 8)))
np.save("v.npy", np.arange(4, dtype="f4"))
EOF
"$quant" quantize -q m.safetensors -o q.safetensors --only weight || fail quant
"$quant" dequantize -q q.safetensors -o d.safetensors --dtype f32 || fail dequant
bind=w=q.safetensors:a.w.weight
for rows in 0 1 3 17; do
  for threads in 1 2 7; do
    expect 0 '' "$run" linear.mlir --bind "$bind" --input "x=x$rows.npy" \
      --input b=b.npy -j $threads --output "y$rows-$threads.npy"
    cmp "y$rows-1.npy" "y$rows-$threads.npy" || fail 'threads change bytes'
  done
done
"$python" - <<'EOF' || fail 'results differ from numpy'
import json, struct
import numpy as np
data = open("d.safetensors", "rb").read()
size, = struct.unpack("<Q", data[:8])
begin, end = json.loads(data[8:8 + size])["a.w.weight"]["data_offsets"]
w = np.frombuffer(data[8 + size + begin:8 + size + end], "f4").reshape(128, 256)
for rows in (0, 1, 3, 17):
    x = np.load(f"x{rows}.npy").astype("f8")
    y = np.load(f"y{rows}-1.npy")
    assert y.shape == (rows, 128) and y.dtype == np.float32
    bound = 300 * 2.0 ** -24 * (np.abs(x) @ np.abs(w.T))
    assert (np.abs(y - np.maximum(x @ w.T, 0)) <= bound).all()
EOF

expect 0 '"schema": "nabla-run/1"' "$run" many.mlir --entry sum --input 0=p.npy \
  --input 1=q.npy --output s.npy --output r.npy --json
"$python" -m json.tool <out >/dev/null || fail 'not JSON'
"$python" - <<'EOF' || fail 'sum'
import numpy as np
p, q = np.load("p.npy"), np.load("q.npy")
assert (np.load("s.npy") == p + q).all()
assert np.allclose(np.load("r.npy"), (p + q).sum(1), atol=1e-5)
EOF
expect 0 '' "$run" many.mlir --entry nothing
expect 0 '' "$run" many.mlir --entry same --input 0=v.npy -o 1.npy -o 2.npy
for i in 1 2; do cmp $i.npy v.npy || fail 'same'; done
expect 0 'compile  parse' "$run" many.mlir --entry nothing --time --cache off
expect 0 'cached' "$run" many.mlir --entry nothing --time
expect 0 'cached' "$run" many.mlir --entry nothing --time --target native
"$run" - --entry nothing --time <many.mlir | grep -q 'run ' ||
  fail 'a program on standard input'
# A profile names kernels and loops; its parts do not exceed the whole, and
# results are the same as without.
for way in '' --profile; do
  # shellcheck disable=SC2086 # none or one
  expect 0 '' "$run" linear.mlir --bind "$bind" --input x=x3.npy \
    --input b=b.npy -o "y$way.npy" $way -j 2
done
cmp y.npy y--profile.npy || fail 'a profile changes results'
expect 0 'kernel nabla' "$run" linear.mlir --bind "$bind" --input x=x3.npy \
  --input b=b.npy --profile
expect 0 '"profile"' "$run" linear.mlir --bind "$bind" --input x=x3.npy \
  --input b=b.npy --profile --json --repeat 3
"$python" -c 'import json, sys
p = json.load(sys.stdin)["profile"]
assert p["runs"] == 3 and p["read_gb_per_s"] > 0
total = sum(row["us"] for row in p["rows"]) + p["unnamed_us"]
assert p["rows"] and abs(total - p["run_us"]) < 1e-3 * p["run_us"] + 1, p
kernel, = [r for r in p["rows"] if r["what"].startswith("kernel")]
assert kernel["calls"] == 1 and kernel["flops"] == 2 * 3 * 128 * 256, kernel
assert kernel["bytes"] > 128 * 256 / 2 + 3 * 256 * 4, kernel
memory = p["memory"]
assert memory["peak_bytes"] == sum(h["bytes"] for h in memory["holders"]), p
assert memory["state_bytes"] == 0 and memory["run_bytes"] > 0, memory
assert any(" at line " in h["what"]
           for h in memory["holders"]), memory' <out ||
  fail 'the rows of a profile'
expect 0 'arrays at the peak' "$run" linear.mlir --bind "$bind" \
  --input x=x3.npy --input b=b.npy --profile
# Runs are repeated in their session. A result that is never written is what its
# memory was.
expect 0 '' "$run" linear.mlir --bind "$bind" --input x=x3.npy --input b=b.npy \
  --again -o again.npy
cmp y.npy again.npy || fail 'a run again changes results'
cat >unwritten.mlir <<'END'
func.func @f() -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  return %e : tensor<4xf32>
}
END
expect 3 'a second run gave other bytes of result 0' "$run" unwritten.mlir --again
expect 0 '' "$run" unwritten.mlir
expect 2 "did you mean 'silu'" "$run" many.mlir --entry sliu
expect 2 'functions; name one: --entry' "$run" many.mlir
expect 2 'is not given' "$run" many.mlir --entry silu
expect 2 'no such argument' "$run" many.mlir --entry nothing --input 9=p.npy
expect 2 'given twice' "$run" many.mlir --entry silu --input 0=p.npy \
  --input 0=p.npy
expect 2 'does not read NAME=FILE' "$run" many.mlir --input p.npy
expect 2 'outputs are named' "$run" many.mlir --entry nothing --output y.npy
expect 2 '3 and 2' "$run" many.mlir --entry sum --input 0=p.npy \
  --input 1=short.npy --output s.npy
expect 2 'F64' "$run" many.mlir --entry silu --input 0=wide.npy
expect 2 'is not given' "$run" linear.mlir --input x=x1.npy --input b=b.npy
cat >all.mlir <<'END'
func.func @f(%x: tensor<?x256xf32> {nabla.name = "x"}, %w: tensor<128x256xf32> {nabla.name = "a.w.weight"}) -> tensor<?x128xf32> {
  %y = nabla.linear %x, %w : tensor<?x256xf32>, tensor<128x256xf32>
  return %y : tensor<?x128xf32>
}
END
expect 0 '' "$run" all.mlir --bind-all d.safetensors --input x=x3.npy -o all.npy
expect 0 '' "$run" all.mlir --bind a.w.weight=d.safetensors:a.w.weight \
  --input x=x3.npy --expect all.npy
expect 2 "argument 'a.w.weight' takes F32" "$run" all.mlir \
  --bind-all q.safetensors --input x=x3.npy
expect 2 "1 differ" "$run" all.mlir --bind-all q.safetensors --input x=x3.npy
sed 's/a.w.weight/other/' all.mlir >other.mlir
expect 2 "tensor 'a.w.weight' is not used" "$run" other.mlir \
  --bind-all d.safetensors --input x=x3.npy
expect 2 "argument 'other' is not given" "$run" other.mlir \
  --bind-all d.safetensors --input x=x3.npy
expect 2 'which tensor' "$run" linear.mlir --bind w=q.safetensors
expect 2 'a.w.weight' "$run" linear.mlir --bind "w=q.safetensors:a.w.weigth"
expect 2 'F32' "$run" linear.mlir --bind "w=d.safetensors:a.w.weight"
expect 4 'none.npy' "$run" many.mlir --entry silu --input 0=none.npy
expect 3 'm.safetensors' "$run" many.mlir --entry silu --input 0=m.safetensors
expect 1 'bad.mlir:1:14: error' "$run" bad.mlir
expect 1 '"exit": 1' "$run" bad.mlir --json
expect 6 'lacks' "$run" many.mlir --entry nothing --target native,+amx-avx512
# outputs replace neither inputs nor each other
expect 2 'is an input' "$run" many.mlir --entry silu --input 0=p.npy \
  --output many.mlir
expect 2 'is an input' "$run" many.mlir --entry silu --input 0=p.npy \
  --output ./p.npy
expect 2 "'-' is no file" "$run" many.mlir --entry silu --input 0=p.npy \
  --output -
expect 2 'is an input' "$compile" many.mlir -o many.mlir
expect 1 'is empty' "$compile" - -o empty.o </dev/null
[ ! -e empty.o ] || fail 'an object of nothing'
expect 1 'DIFFERS' "$run" many.mlir --entry silu --input 0=p.npy \
  --expect p.npy
expect 0 'it ran' "$run" many.mlir --entry silu --input 0=random:2x8
chmod 755 cache
expect 0 'others may enter' "$run" many.mlir --entry nothing
# a batch: each line as if it was a command of its own, with an empty input
expect 2 'no other argument' "$run" --batch many.mlir
chmod 700 cache
printf '%s\n' 'many.mlir -e silu -i 0=p.npy -o batch.npy' \
  bad.mlir '- -e nothing' '' 'many.mlir -e nothing' --version |
  tr ' ' '\t' >lines
"$run" --batch <lines >out 2>err || fail 'a batch'
"$run" many.mlir -e silu -i 0=p.npy -o alone.npy
cmp batch.npy alone.npy || fail 'a result of a batch'
"$python" - <<'END' || fail 'what a batch prints'
left = open("out", "rb").read()
runs = []
while left:
    head, left = left.split(b"\n", 1)
    code, size, errors = map(int, head.split())
    runs.append((code, left[:size], left[size:size + errors]))
    left = left[size + errors:]
want = [(0, b"", b""), (1, b"", b"bad.mlir:1:14: error"), (1, b"", b"is empty"),
        (2, b"", b"a program is missing"), (0, b"", b"it ran"),
        (0, b"nabla-run ", b"")]
assert len(runs) == len(want), runs
for got, (code, out, err) in zip(runs, want):
    assert got[0] == code and out in got[1] and err in got[2], got
    assert bool(got[1]) == bool(out) and bool(got[2]) == bool(err), got
END
# a line that cannot be a command ends a batch, after those before it
printf -- '--version\nmany.mlir\t-e\tnothing\0\t--json\n--version\n' >lines
"$run" --batch <lines >out 2>err && fail 'a batch with a byte 0'
grep -q 'byte 0, after 20 others' err || fail 'the error of a byte 0'
[ "$(grep -c nabla-run out)" -eq 1 ] || fail 'what a batch runs before a byte 0'
head -c 1048577 /dev/zero | tr '\0' x >lines
"$run" --batch <lines >out 2>err && fail 'a batch with a long line'
grep -q 'longer than 1048576 bytes' err || fail 'the error of a long line'
printf -- '--version' | "$run" --batch >out || fail 'a line without an end'
grep -q '^nabla-run ' out || fail 'what a line without an end runs'
# the kind of output by its name; --emit counts more
for pair in mlir:llvm.func ll:define s:text o:ELF so:ELF other:ELF; do
  "$compile" many.mlir -o "k.${pair%:*}" || fail "an output k.${pair%:*}"
  grep -q "${pair#*:}" "k.${pair%:*}" || fail "k.${pair%:*} is of another kind"
done
"$compile" many.mlir --emit asm -o k.ll || fail '--emit asm'
! grep -q define k.ll || fail '--emit counts less than a name'
# off, in the variable as in the option
rm -rf cache
expect 0 'it ran' env NABLA_CACHE=off "$run" many.mlir -e nothing
expect 0 'it ran' env NABLA_CACHE= "$run" many.mlir -e nothing
expect 0 'it ran' "$run" many.mlir -e nothing --cache off
[ ! -e off ] || fail 'a folder named off'
[ ! -e cache ] || fail 'no cache, and a folder'
# a file and a tensor whose names have colons
"$python" - <<'END'
import json, struct
head = json.dumps({"w:0": {"dtype": "F32", "shape": [2],
                           "data_offsets": [0, 8]}}).encode()
open("c:1.safetensors", "wb").write(
    struct.pack("<Q", len(head)) + head + struct.pack("<2f", 1, 2))
END
cat >colon.mlir <<'END'
func.func @f(%x: tensor<2xf32> {nabla.name = "x:0"}) -> tensor<2xf32> {
  %y = nabla.neg %x : tensor<2xf32>
  return %y : tensor<2xf32>
}
END
expect 0 '' "$run" colon.mlir -b x:0=c:1.safetensors:w:0 -o colon.npy
expect 2 "tensor 'w:1': there is no such tensor" "$run" colon.mlir -b x:0=c:1.safetensors:w:1
expect 4 'no:2.safetensors' "$run" colon.mlir -b x:0=no:2.safetensors:w
# programs for ranks; a file holds no piece of a state
cat >state.mlir <<'END'
nabla.mesh @mesh <["model"=2]>
func.func @step(%x: tensor<4x8xf32> {nabla.name = "x"},
    %whole: tensor<4xf32> {nabla.state = "whole"},
    %cache: tensor<4x8xf32> {nabla.state = "cache",
        nabla.sharding = #nabla.sharding<@mesh, [{}, {"model"}]>})
    -> (tensor<4xf32> {nabla.state = "whole"},
        tensor<4x8xf32> {nabla.state = "cache"}) {
  %y = nabla.add %x, %cache : tensor<4x8xf32>, tensor<4x8xf32>
  return %whole, %y : tensor<4xf32>, tensor<4x8xf32>
}
END
# step CODE PATTERN OPTION...
step() {
  code=$1
  pattern=$2
  shift 2
  expect "$code" "$pattern" "$run" state.mlir -i x=random:4x8 "$@"
}
step 0 '' --ranks 2 --keep-state whole=kept.npy
step 0 '' --ranks 2 --state whole=kept.npy
step 6 'the state is divided' --ranks 2 --keep-state cache=no.npy
step 6 'the state is divided' --ranks 2 --state cache=random:4x8
[ ! -e no.npy ] || fail 'a piece of a state is written'
step 2 'run it with --ranks 2'
step 2 'run it with --ranks 2' --ranks 3
expect 2 'leave --ranks out' "$run" many.mlir -e nothing --ranks 2
[ $failures -eq 0 ] || exit 1
echo 'all as expected'

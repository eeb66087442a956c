#!/bin/bash
# nabla-compile, nabla-run and nabla-opt as processes: limits of the size of
# files, signals that the parent ignored, outputs that are devices and pipes,
# and an end at any moment.
# usage: process.sh FOLDER_OF_PROGRAMS PYTHON
set -u
bin=$(cd "$1" && pwd) python=$2
compile=$bin/nabla-compile run=$bin/nabla-run opt=$bin/nabla-opt
[ -x "$compile" ] && [ -x "$run" ] && [ -x "$opt" ] || exit 77
"$python" -c 'import numpy' 2>/dev/null || {
  echo "skipped: $python has no numpy"
  exit 77
}
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
mkdir tmp empty
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
  [ -z "$pattern" ] || cat out err | grep -a -q -e "$pattern" || { fail "no '$pattern': $*"; cat out err; }
}

# none FOLDER: nothing is in it, hidden files included
none() { [ -z "$(ls -A "$1")" ] || { fail "left in $1: $(ls -A "$1")"; rm -rf "${1:?}"/*; }; }

cat >f.mlir <<'END'
func.func @f(%x: tensor<?x4xf32> {nabla.name = "x"}) -> tensor<?x4xf32> {
  %y = nabla.silu %x : tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
END
expect 0 '' "$compile" f.mlir -o f.so
expect 0 '' "$compile" f.mlir -o f.o
expect 0 '' "$run" f.so -i x=random:3x4 -o y.npy
cp f.o old

# ---- ulimit -f: an error, a kept old file, nothing half-written ----
limited() { (ulimit -f 1 && exec "$@"); }
too_large='[Ff]ile too large'
expect 4 "$too_large.*ulimit -f" limited "$compile" f.mlir -o empty/f.o
expect 4 "$too_large" limited "$compile" f.mlir -o empty/f.so
expect 4 "$too_large" limited "$compile" f.mlir -o empty/f.o --header empty/f.h
expect 4 "$too_large.*ulimit -f" \
  limited "$run" f.so -i x=random:300x4 -o empty/y.npy
none empty
expect 4 "$too_large" limited "$compile" f.mlir -o f.o
cmp f.o old || fail 'the old object is gone'
(ulimit -f 1 && "$compile" f.mlir >out 2>err)
[ $? -eq 4 ] || fail 'standard output beyond the limit'
grep -q "$too_large" err || fail 'no reason for standard output'
rm -rf cache
expect 0 'it ran' limited "$run" f.mlir -i x=random:3x4
[ -z "$(find cache -name '.*' -type f)" ] || fail 'the cache holds a piece'
expect 0 'it ran' "$run" f.mlir -i x=random:3x4
for ((i = 0; i < 400; i++)); do
  echo "func.func @f$i(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
done >large.mlir
cp large.mlir empty/kept.mlir
expect 1 "$too_large" limited "$opt" large.mlir -o empty/new.mlir
expect 1 "$too_large" limited "$opt" large.mlir -o empty/kept.mlir
cmp large.mlir empty/kept.mlir || fail 'nabla-opt cut what was there'
rm -f empty/kept.mlir
none empty

# ---- ignored signals stay ignored; SIGCHLD among them harms nothing ----
ignoring() {
  "$python" - "$@" <<'END'
import os, signal, sys
for name in ("SIGCHLD", "SIGXFSZ", "SIGPIPE", "SIGHUP"):
    signal.signal(getattr(signal, name), signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])
END
}
mkdir cc bad sleeping
for program in cc as ld; do ln -s "$(command -v $program)" cc/$program; done
printf '#!/bin/sh\necho "linker: out of luck" >&2\nexit 3\n' >bad/ld.lld-22
chmod +x bad/ld.lld-22
expect 0 '' ignoring "$compile" f.mlir -o ignored.so
cmp f.so ignored.so || fail 'ignored signals change the library'
expect 0 '' ignoring env PATH="$work/cc" "$compile" f.mlir -o cc.so
expect 0 'ok' "$run" cc.so -i x=random:3x4 --expect y.npy
expect 4 'ld.lld-22 cannot link the program: linker: out of luck' \
  ignoring env PATH="$work/bad" "$compile" f.mlir -o none.so
expect 6 'neither ld.lld-22 nor cc is in PATH' \
  ignoring env PATH="$work/empty" "$compile" f.mlir -o none.so
[ ! -e none.so ] || fail 'a failed linker left a library'
none tmp

# ---- killed while it links: nothing stays ----
printf '#!/bin/sh\necho $$ >"%s/linker"\nexec /bin/sleep 60\n' "$work" >sleeping/ld.lld-22
chmod +x sleeping/ld.lld-22
for signal in KILL TERM; do
  rm -f linker
  PATH="$work/sleeping:$PATH" "$compile" f.mlir -o empty/killed.so 2>err &
  child=$!
  for ((i = 0; i < 600; i++)); do
    [ ! -s linker ] || break
    sleep .05
  done
  [ -s linker ] || fail 'the linker does not start'
  kill -$signal $child
  kill "$(cat linker)"
  wait $child && fail "exit 0 after $signal"
  none tmp
  none empty
done

# ---- devices and pipes are written to ----
for output in /dev/null /dev/stdout; do
  for kind in obj so asm mlir llvm; do
    expect 0 '' "$compile" f.mlir --emit $kind -o $output
  done
  expect 0 '' "$run" f.so -i x=random:3x4 -o $output
done
for output in /dev/stdout /dev/fd/1 /proc/self/fd/1 /dev/fd/7; do
  "$compile" f.mlir -o $output >piped.o 7>&1 || fail "$output"
  cmp f.o piped.o || fail "$output has other bytes"
  "$compile" f.mlir -o $output 7>&1 | cat >piped.o || fail "$output, a pipe"
  cmp f.o piped.o || fail "$output, a pipe: other bytes"
  { echo head; "$run" f.so -i x=random:3x4 -o $output 7>&1; } | cat >piped.npy
  { echo head; cat y.npy; } | cmp - piped.npy || fail "$output: other values"
done
echo head >appended
"$compile" f.mlir -o /dev/stdout >>appended || fail 'appending'
{ echo head; cat f.o; } | cmp - appended || fail 'it did not append'
mkfifo pipe
timeout 60 cat pipe >piped.o &
expect 0 '' "$compile" f.mlir -o pipe
wait
cmp f.o piped.o || fail 'a FIFO has other bytes'
[ -p pipe ] || fail 'the FIFO was replaced'
expect 0 '' "$run" f.so -i x=random:3x4 -o /dev/null -e f
expect 4 'No space left' "$compile" f.mlir -o /dev/full
expect 4 'No space left' "$run" f.so -i x=random:3x4 -o /dev/full
expect 4 'Bad file descriptor' "$compile" f.mlir -o /dev/fd/9
ln -s f.o link.o
expect 2 'symbolic link' "$compile" f.mlir -o link.o
expect 0 '' "$opt" f.mlir -o /dev/null
expect 0 'nabla.silu' "$opt" f.mlir -o /dev/stdout
[ $failures -eq 0 ] || exit 1
echo 'all as expected'

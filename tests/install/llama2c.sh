#!/bin/bash
# bench/llama2c: fewer than 150 lines, which land where they say in a file of as
# many lines as run.c has; another file is refused. Where $NABLA_LLAMA2C is a
# checkout of llama2.c: its text with our products is its own, and so is that of a
# saved program.
#
#   llama2c.sh SOURCE BUILD CC
set -euo pipefail
source=$1 build=$2 cc=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() { echo "FAIL: $*"; exit 1; }
folder=$source/bench/llama2c

[ "$(cat "$folder/added.h" "$folder/edits" | wc -l)" -lt 150 ] || fail "150 lines"
seq 1 973 | sed 's/^/line /' >"$scratch/run.c"
"$folder/apply" "$scratch/run.c" "$scratch/out.c" 2>"$scratch/log" &&
  fail "another file is taken"
grep -q 'another run.c' "$scratch/log" || fail "no reason is given"
NABLA_LLAMA2C_HASH=$(sha256sum <"$scratch/run.c" | cut -d' ' -f1)
export NABLA_LLAMA2C_HASH
"$folder/apply" "$scratch/run.c" "$scratch/out.c"
{
  echo 'line 217'
  echo '    multiply(xout, x, w, n, d);'
  echo 'line 229'
} >"$scratch/want"
grep -A2 '^line 217$' "$scratch/out.c" | cmp - "$scratch/want" || fail "lines 217 to 229"
changes=$(grep '^line' "$scratch/out.c" | diff "$scratch/run.c" - | grep '^[<>]' || true)
[ "$changes" = "$(seq 218 228 | sed 's/^/< line /')" ] || fail "other lines: $changes"
ours=$(grep -c '^[0-9]*+ ' "$folder/edits")
[ "$(grep -vc '^line' "$scratch/out.c")" = "$ours" ] || fail "our lines lack"
unset NABLA_LLAMA2C_HASH

model=${NABLA_MODELS-/nonexistent}/stories260K
if [ ! -f "${NABLA_LLAMA2C-}/run.c" ] || [ ! -f "$model/tokenizer.bin" ]; then
  echo "run.c itself is not tried: NABLA_LLAMA2C is no checkout of llama2.c, or no model"
  exit 0
fi
"$folder/apply" "$NABLA_LLAMA2C/run.c" "$scratch/ours.c"
"$cc" -O2 "$NABLA_LLAMA2C/run.c" -o "$scratch/own" -lm
"$cc" -O2 -I"$source" -I"$source/include" "$scratch/ours.c" -o "$scratch/ours" \
  "-L$build" -lnabla-runtime "-Wl,-rpath,$build" -lm
text() { # PROGRAM ARGUMENT...
  local program=$1
  shift
  "$scratch/$program" "$model/checkpoint_legacy.bin" -z "$model/tokenizer.bin" \
    -t 0 -n 200 "$@" 2>/dev/null
}
text own >"$scratch/own.txt"
text ours | cmp - "$scratch/own.txt" || fail "dense plans: another text"
text ours -j 2 | cmp - "$scratch/own.txt" || fail "two threads: another text"
text ours -e int8 >"$scratch/int8.txt"
grep -q 'a little girl named Lily' "$scratch/int8.txt" || fail "int8"
text ours -e nf5 && fail "an encoding that does not exist"
[ -x "$build/bin/llama" ] || exit 0
mkdir "$scratch/model"
cp "$model/stories260K-f32.safetensors" "$scratch/model/model.safetensors"
cp "$model/config.json" "$model/tokenizer.bin" "$scratch/model/"
NABLA_CACHE='' "$build/bin/llama" "$scratch/model" --save "$scratch/p.so" -n 1 >/dev/null
text ours -P "$scratch/p.so" -M "$scratch/model" | cmp - "$scratch/own.txt" ||
  fail "a saved program: another text"

#!/bin/bash
# examples/llama: text as it is known, saved programs without a compiler, a model
# that is divided among threads, what is refused, and a generation that Ctrl-C ends.
# usage: llama.sh LLAMA LLAMA_SAVED SOURCE_FOLDER
# The model is looked for in $NABLA_MODELS, or in ../shared/models beside the
# source folder. Exits 77, which ctest shows as skipped, without it.
set -u
llama=$1 saved=$2
folder=${NABLA_MODELS:-$3/../shared/models}/stories260K
model=$folder/stories260K-f32.safetensors
[ -f "$model" ] || exit 77
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export NABLA_CACHE=$dir/cache
failed=0

# expect EXIT TEXT COMMAND...: exit code, and a part of what it prints
expect() {
  local code=$1 text=$2 out got=0
  shift 2
  out=$("$@" 2>&1) || got=$?
  if [ "$got" != "$code" ] || [[ "$out" != *"$text"* ]]; then
    echo "FAILED: exit $got, not $code, or no '$text': $*"
    printf '%s\n' "$out" | head -5
    failed=1
  fi
}

known='Once upon a time, there was a little girl named Lily. She loved to play outside in the park.'
expect 0 "$known" "$llama" "$model" -n 60 --temperature 0 --encoding none \
  --text "$dir/d.mlir" --stats
expect 0 'generation 3 tokens' "$llama" "$model" -n 4 --stats
got=$("$llama" "$model" -n 4 --stats 2>&1 >/dev/null)
[[ $got =~ read\ limit\ [0-9]{1,3}\.[0-9]\ GB/s ]] ||
  { echo "FAILED: a read limit that memory does not have: $got"; failed=1; }
expect 0 '1 403 407 261' "$llama" "$model" --ids 1 -n 3
expect 0 'func.func @prefill' cat "$dir/d.mlir"

# a saved program of packed weights, and weights of another packing
expect 0 'Tom had a red ball' "$llama" "$model" -n 5 -p 'Tom had a red ball' \
  --encoding nf4:32:f16 --save "$dir/p.so"
first=$("$llama" "$model" -n 40 -p 'Tom' --encoding nf4:32:f16)
expect 0 "$first" "$saved" "$model" -n 40 -p 'Tom' --encoding nf4:32:f16 \
  --program "$dir/p.so"
expect 1 'differ from theirs' "$saved" "$model" --program "$dir/p.so"
expect 1 'has no compiler' "$saved" "$model"

# 5 ids, of which the last two are drawn
one=$("$llama" "$model" -n 20 --temperature 1 --seed 7)
[ "$one" = "$("$llama" "$model" -n 20 --temperature 1 --seed 7)" ] ||
  { echo 'FAILED: one seed, two texts'; failed=1; }
[ "$one" != "$("$llama" "$model" -n 20 --temperature 1 --seed 8)" ] ||
  { echo 'FAILED: two seeds, one text'; failed=1; }

# the sum of -log p of what it says itself is small; packed weights lose some
"$llama" "$model" --ids 1 -n 100 >"$dir/ids"
expect 0 'perplexity 1.' "$llama" "$model" --ids '' --perplexity "$dir/ids"
expect 0 'KL divergence from dense 0.0' "$llama" "$model" --ids '' \
  --perplexity "$dir/ids" --encoding int8

# divided among two threads: 200 greedy ids, and the text, are those of one
one=$("$llama" "$model" --ids 1 -n 200)
expect 0 "$one" "$llama" "$model" --ids 1 -n 200 --mesh model=2 \
  --save "$dir/m.so"
expect 0 "$known" "$saved" "$model" -n 60 --mesh model=2 --program "$dir/m.so"
expect 0 'cache 0.6 MiB' "$saved" "$model" -n 2 --mesh model=2 --stats \
  --program "$dir/m.so" # halves of one
expect 1 'is for 2 ranks, the communicator has 4' "$saved" "$model" \
  --mesh model=4 --program "$dir/m.so"
expect 1 'is for 2 ranks' "$saved" "$model" --program "$dir/m.so"
expect 1 'token 512 is none' "$saved" "$model" --ids 512 --mesh model=2 \
  --program "$dir/m.so"
expect 1 'without --mesh' "$saved" "$model" --perplexity "$dir/ids" \
  --mesh model=2 --program "$dir/m.so"
for mesh in model=0 model=65 model=99999999999999999999; do
  expect 1 'from 1 to 64 are possible' "$llama" "$model" --mesh $mesh
done
expect 1 'mesh reads model=N' "$llama" "$model" --mesh x=2

# refused
expect 1 'do not fit into a cache of 4' "$llama" "$model" --ids 1,2,3,4,5 \
  --context 4
expect 0 '1 2 3 ' "$llama" "$model" --ids 1,2,3 --context 4
expect 1 'token 512 is none' "$llama" "$model" --ids 512
expect 1 'is no token id' "$llama" "$model" --ids 1,x
expect 1 'no token to begin' "$llama" "$model" --ids ''
expect 1 'is not understood' "$llama" "$model" --encoding nf5
expect 1 'is not understood' "$llama" "$model" --encoding nf4:
expect 2 'is no option' "$llama" "$model" --nothing
expect 2 'needs an argument' "$llama" "$model" -n
expect 2 'cannot take' "$llama" "$model" -n x
expect 2 'usage' "$llama"
expect 1 'not UTF-8' "$llama" "$model" -p $'\xff'
cp "$model" "$dir/model.safetensors"
expect 1 'config.json' "$llama" "$dir/model.safetensors"
sed 's/"vocab_size": 512/"vocab_size": 513/' "$folder/config.json" \
  >"$dir/config.json"
expect 1 "config.json says [513,64]" "$llama" "$dir/model.safetensors"
sed 's/"hidden_act"/"rope_scaling": {"factor": 2}, "hidden_act"/' \
  "$folder/config.json" >"$dir/config.json"
expect 1 'rope_scaling' "$llama" "$dir/model.safetensors"
cp "$folder/config.json" "$dir"
expect 1 'tokenizer' "$llama" "$dir/model.safetensors"

# Ctrl-C: a shell without job control starts jobs that ignore it, so python does
python3 - "$llama" "$model" <<'END' || failed=1
import signal, subprocess, sys
for _ in range(3):
    p = subprocess.Popen([sys.argv[1], sys.argv[2], "-n", "100000", "--context",
                          "400000", "--stats"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE)
    p.stdout.read(40)
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=100)
    if p.returncode or b"generation" not in err:
        sys.exit("FAILED: Ctrl-C: exit %d, %r" % (p.returncode, err))
END
exit $failed

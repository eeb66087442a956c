# A whole model: its figures beside a peer whose times are known, its logits
# beside a forward pass in Python; peers that misbehave; what is refused.
need_compiler
mkdir -p bin
export NABLA_PEERS="$PWD" NABLA_CACHE="$PWD/cache" TMPDIR="$PWD"
python3 "$HERE/tiny_llama.py" tiny 9 logits
small='--model tiny --context 48 --prompt 9 --turns 1'
# shellcheck disable=SC2086 # several words
gen() { nb generate $small "$@"; }
gen --peers none >out
sed -E -e 's/ [0-9]+ ms.*/ N ms/' -e 's/ +[0-9.]+ +[0-9.]+ +[0-9.]+%.*/ N/' out
gen >out
tail -n 1 out
cat >bin/nabla-peer-write-gguf <<'PEER'
#!/bin/sh
echo "$1 $2" >"$3"
echo ready 1 gguf
PEER
# A prompt takes 4 s, 32 tokens 16 s.
cat >bin/nabla-peer-llama-generate <<'PEER'
#!/bin/sh
echo "ready 5 a fake of $(cat "$1"), $2 $3 $4"
while read -r word file; do
  case $word in
    logits) cp logits "$file" && echo 1 ;;
    generate) echo 16000000000 ;;
    prompt) echo 4000000000 ;;
  esac
done
PEER
chmod +x bin/*
for encoding in dense q8_0 nf4; do
  gen -e $encoding --json >out
  check_json generate format context prompt weight_bytes token_bytes \
    cache_bytes peer.format peer.version peer.weight_bytes <out
  python3 - <<'CHECK'
import json
out = json.load(open("out"))
bound = {"dense": .001, "q8_0": .03}.get(out["format"], .4)
off = out["peer"]["logits_rmse"]
print("logits", "equal" if off < bound else "differ by %g" % off)
for row in out["rows"]:
    if row["role"] == "peer":
        print(row["what"], row["tokens_per_s"], row["nabla_times_as_fast"] > 1)
CHECK
done
gen -e dense -j 2 --json | check_json generate threads format
ls models | wc -l
printf '#!/bin/sh\necho no such thing\n' >bin/nabla-peer-llama-generate
gen | tail -n 1
printf '#!/bin/sh\necho ready 1 x\n' >bin/nabla-peer-llama-generate
gen | tail -n 1
for wrong in '--context 32' '--prompt 49' '--context 0' '-e dense-f16' \
  '-e nf4 --block row' '-e nf5' '--model nowhere' '--isa avx2'; do
  code=0
  # shellcheck disable=SC2086 # several words
  gen $wrong >out 2>err || code=$?
  head -n 1 err
  echo "exit $code"
done

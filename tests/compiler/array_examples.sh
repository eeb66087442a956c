#!/bin/sh
# The examples of docs/FUNCTIONS.md and docs/TRAINING.md print what the pages show.
# usage: array_examples.sh BIN SOURCE
set -eu
bin=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for example in mlp custom_op train; do
  sed -n "/^\\\$ $example\$/,/^\`\`\`/p" "$source/docs/FUNCTIONS.md" \
    "$source/docs/TRAINING.md" |
    sed '1d;$d' >"$example.want"
  [ -s "$example.want" ]
  "$bin/$example" | diff "$example.want" -
  lines=$(wc -l <"$source/examples/$example/main.c")
  [ "$lines" -lt 150 ] || { echo "$example has $lines lines"; exit 1; }
  echo "figure: ${example}_lines $lines"
done
[ -f mlp.safetensors ]
"$bin/mlp" | diff mlp.want - # reads the file that the first run made
if echo damaged >bad.safetensors && "$bin/mlp" bad.safetensors; then
  echo "a damaged file was read"
  exit 1
fi

# 50 steps lower the loss (which the page shows), and leave the packed base; a
# second run makes the same bytes.
tail -n 1 train.want | grep -qx 'base as it was'
"$bin/train" again >again.out
diff train.want again.out
cmp train.svg again.svg
cmp train.safetensors again.safetensors
awk '/^step/ { loss[++n] = $4 } END { exit !(n == 6 && loss[n] < loss[1] / 4) }' \
  train.want
if "$bin/train" missing/folder 2>/dev/null; then
  echo "train wrote into a folder that is not there"
  exit 1
fi

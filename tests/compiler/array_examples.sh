#!/bin/sh
# The examples of docs/FUNCTIONS.md print what the page shows.
# usage: array_examples.sh BIN SOURCE
set -eu
bin=$1 source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for example in mlp custom_op; do
  sed -n "/^\\\$ $example\$/,/^\`\`\`/p" "$source/docs/FUNCTIONS.md" |
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

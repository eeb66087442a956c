#!/bin/bash
# man.sh PYTHON PAGES TOOL...: each page is read by man without a warning, has a
# line for apropos, and shows every verb and option that --help --json lists.
set -euo pipefail
python=$1 pages=$2
shift 2

for program in man lexgrog groff; do
  command -v $program >/dev/null || { echo "SKIP: $program is not installed"; exit 77; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

fail() { echo "FAIL: $*"; exit 1; }

# names OBJECT KEY: the names in a list of a help object
names() {
  "$python" -c 'import json, sys
help = json.load(open(sys.argv[1]))
for row in help.get("help", help).get(sys.argv[2], []):
    print(row["name"])' "$1" "$2"
}

for tool; do
  name=$(basename "$tool")
  page=$pages/$name.1
  MANWIDTH=100 man --warnings -l "$page" >"$scratch/text" 2>"$scratch/warnings" ||
    fail "man -l $page"
  [ ! -s "$scratch/warnings" ] || { cat "$scratch/warnings"; fail "warnings of $page"; }
  lexgrog "$page" | grep -q "\"$name - " || fail "apropos does not see $name"
  "$tool" --help --json >"$scratch/help"
  names "$scratch/help" options >"$scratch/options"
  for verb in $(names "$scratch/help" verbs); do
    grep -qE "^ +$name $verb " "$scratch/text" || fail "$name: verb $verb is missing"
    "$tool" help "$verb" --json >"$scratch/verb"
    names "$scratch/verb" options >>"$scratch/options"
  done
  [ -s "$scratch/options" ] || fail "$name --help --json lists no option"
  if [ "$name" = nabla-opt ]; then
    "$tool" --help | grep -oE '^ +--nabla-[a-z0-9-]+' | tr -d ' ' | cut -c3- |
      tee "$scratch/passes" >>"$scratch/options"
    [ "$(wc -l <"$scratch/passes")" -gt 20 ] || fail "--help lists no passes"
  fi
  sort -u "$scratch/options" | while IFS= read -r option; do
    grep -qE "^ +(-[a-z], )?--$option( |\$)" "$scratch/text" ||
      fail "$name: --$option is missing"
  done
done

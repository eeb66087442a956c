#!/bin/bash
# libnabla-quant.so needs libc (with libm and libpthread) and nothing else, and
# exports what the headers mark NABLA_API and nothing else.
set -euo pipefail
source=$1 library=$2

fail() { echo "FAIL: $*"; exit 1; }

needed=$(readelf -d "$library" |
  sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p')
for name in $needed; do
  case $name in
    libc.so.6 | libm.so.6 | libpthread.so.0 | ld-linux-*.so.*) ;;
    *) fail "needs $name" ;;
  esac
done
echo "needs: ${needed//$'\n'/ }"

readelf -d "$library" | grep -qE 'SONAME.*\[libnabla-quant\.so\.[0-9.]+\]' ||
  fail "no versioned soname"

exported=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sort)
# a declaration starts at NABLA_API; the name is what stands before its first
# parenthesis that follows an identifier
declared=$(cat "$source"/include/nabla/*.h |
  grep -vE '^ *#' | tr '\n' ' ' | grep -oE 'NABLA_API [^;{]*' |
  grep -oE '\bnabla_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u)
[ "$(wc -w <<<"$declared")" -ge 10 ] || fail "found too few declarations"
difference=$(diff <(echo "$declared") <(echo "$exported")) || {
  echo "$difference"
  fail "'<' is declared but not exported, '>' the other way round"
}
echo "exports $(wc -w <<<"$exported") functions"

if strings "$library" | grep -F "$source/"; then
  fail "the library holds the path of the checkout"
fi

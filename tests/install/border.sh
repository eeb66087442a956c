#!/bin/bash
# libnabla-quant.so and libnabla-runtime.so need libc (with libm and libpthread)
# and nothing else, libnabla.so also LLVM, MLIR and libstdc++; all export what the
# headers mark NABLA_API and nothing else.
#
#   border.sh SOURCE LIBRARY HEADER...   headers that are not the library's
set -euo pipefail
source=$1 library=$2
shift 2

fail() { echo "FAIL: $*"; exit 1; }

needed=$(readelf -d "$library" |
  sed -nE 's/.*\(NEEDED\).*\[(.*)\]/\1/p')
for name in $needed; do
  case $name in
    libc.so.6 | libm.so.6 | libpthread.so.0 | ld-linux-*.so.*) ;;
    libMLIR.so.* | libLLVM.so.* | libstdc++.so.6 | libgcc_s.so.1)
      case $library in
        */libnabla.so*) ;;
        *) fail "needs $name" ;;
      esac ;;
    *) fail "needs $name" ;;
  esac
done
echo "needs: ${needed//$'\n'/ }"

name=$(basename "$library")
readelf -d "$library" | grep -qE "SONAME.*\[${name%%.so*}\.so\.[0-9.]+\]" ||
  fail "no versioned soname"

exported=$(nm -D --defined-only "$library" | awk '{ print $3 }' | sort)
# a declaration starts at NABLA_API; the name is what stands before its first
# parenthesis that follows an identifier
headers=()
for header in "$source"/include/nabla/*.h; do
  case " $* " in
    *" ${header##*/} "*) ;;
    *) headers+=("$header") ;;
  esac
done
declared=$(cat "${headers[@]}" |
  grep -vE '^ *#' | tr '\n' ' ' | grep -oE 'NABLA_API [^;{]*' |
  grep -oE '\bnabla_[a-z0-9_]+ *\(' | tr -d ' (' | sort -u)
[ "$(wc -w <<<"$declared")" -ge 10 ] || fail "found too few declarations"
difference=$(diff <(echo "$declared") <(echo "$exported")) || {
  echo "$difference"
  fail "'<' is declared but not exported, '>' the other way round"
}
echo "figure: exported_functions $(wc -w <<<"$exported")"

if strings "$library" | grep -F "$source/"; then
  fail "the library holds the path of the checkout"
fi

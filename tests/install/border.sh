#!/bin/bash
# libnabla-quant.so and libnabla-runtime.so need libc (with libm and libpthread)
# and nothing else, libnabla.so also LLVM, MLIR and libstdc++; all export what the
# headers mark NABLA_API and nothing else.
#
#   border.sh SOURCE LIBRARY quant|runtime|nabla
set -euo pipefail
source=$1 library=$2 which=$3

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

# names with @@VERSION; A: the versions
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" { print $3 }')
! grep -vE '@@NABLA_[0-9]+\.[0-9]+$' <<<"$exported" || fail "no version"
exported=$(awk -F@@ '{ print $1 }' <<<"$exported" | sort)
# a declaration starts at NABLA_API; the name is what stands before its first
# parenthesis that follows an identifier
listed=$(sed -nE 's/^HEADER\(([a-z0-9_.]+), *([a-z]+)\)$/\1 \2/p' \
  "$source/cmake/headers.def")
difference=$(diff <(cut -d' ' -f1 <<<"$listed" | sort) \
  <(cd "$source/include/nabla" && printf '%s\n' * | sort)) ||
  fail "cmake/headers.def lists other files than include/nabla has: $difference"
case $which in
  quant) libraries='quant' ;;
  runtime) libraries='quant|runtime' ;;
  nabla) libraries='quant|runtime|nabla' ;;
esac
mapfile -t headers < <(grep -E " ($libraries)$" <<<"$listed" | cut -d' ' -f1)
declared=$(cat "${headers[@]/#/$source/include/nabla/}" |
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

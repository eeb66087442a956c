#!/bin/bash
# cmake/symbols.cmake, on a library of its own with one header: functions keep the
# version of cmake/abi.txt, new ones get that of now; a function without NABLA_API
# is not exported; one that is declared and not defined does not link; a program
# that uses a new function is refused by the loader with the library of before.
#
#   versions.sh SOURCE CC
set -euo pipefail
source=$1 cc=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
fail() {
  tail -n 20 "$scratch/log" 2>/dev/null || true
  echo "FAIL: $*"
  exit 1
}
cd "$scratch"
mkdir -p include/nabla cmake old new
echo 'HEADER(a.h, quant)' >cmake/headers.def
echo 'HEADER(b.h, nabla)' >>cmake/headers.def
echo 'NABLA_API int nabla_other(void);' >include/nabla/b.h
cat >a.c <<'C'
#include "nabla/a.h"
int nabla_first(void) { return 1; }
int nabla_internal(void) { return 2; }
#ifdef NEW
int nabla_second(int x) { return x; }
#endif
C

# library FOLDER VERSION [ARGUMENT...]: libnabla-quant.so.0 in FOLDER
library() {
  local folder=$1 version=$2
  shift 2
  cmake -DSOURCE="$scratch" -DLIBRARY=quant -DVERSION="$version" \
    -DOUT="$folder/map" -P "$source/cmake/symbols.cmake" &&
    "$cc" -shared -fPIC "$@" a.c -I include -o "$folder/libnabla-quant.so.0" \
      -Wl,-soname,libnabla-quant.so.0 "-Wl,--version-script,$folder/map" \
      -Wl,--no-undefined-version
}
exports() {
  nm -D --defined-only "$1/libnabla-quant.so.0" | awk '$2 == "T" { print $3 }' |
    sort | tr '\n' ' '
}

{
  echo '#define NABLA_API __attribute__((visibility("default")))'
  echo 'NABLA_API int nabla_first(void);'
} >include/nabla/a.h
library old 0.1 >log 2>&1 || fail "the first version"
[ "$(exports old)" = 'nabla_first@@NABLA_0.1 ' ] || fail "exports: $(exports old)"

echo 'function nabla_first@NABLA_0.1 quant int (void)' >cmake/abi.txt
echo 'NABLA_API int nabla_second(int x);' >>include/nabla/a.h
library new 0.2 >log 2>&1 && fail "nabla_second is not defined, and links"
grep -q nabla_second log || fail "nabla_second is not named"
library new 0.2 -DNEW >log 2>&1 || fail "the second version"
[ "$(exports new)" = 'nabla_first@@NABLA_0.1 nabla_second@@NABLA_0.2 ' ] ||
  fail "exports: $(exports new)"

for function in first:'' second:5; do
  printf '#include "nabla/a.h"\nint main(void) { return !nabla_%s(%s); }\n' \
    "${function%:*}" "${function#*:}" >"${function%:*}.c"
  "$cc" "${function%:*}.c" -I include new/libnabla-quant.so.0 -o "${function%:*}"
done
LD_LIBRARY_PATH=new ./first || fail "first, new"
LD_LIBRARY_PATH=new ./second || fail "second, new"
LD_LIBRARY_PATH=old ./first || fail "first, old"
LD_LIBRARY_PATH=old ./second 2>log && fail "the library of before is taken"
grep -q "NABLA_0.2" log || fail "the version is not named"

echo 'HEADER(c.h, quantum)' >>cmake/headers.def
library new 0.2 -DNEW >log 2>&1 && fail "a library that does not exist"
grep -q quantum log || fail "the row is not named"

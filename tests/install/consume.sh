#!/bin/bash
# Installs into a scratch prefix and uses it from outside: by CMake and by
# pkg-config, shared and static, from C17 and C++17; builds every example; looks
# at links, debug information, and what uninstalling leaves.
set -euo pipefail
source=$1 build=$2 cc=$3 sanitize=${4-}

for program in pkg-config c++; do
  command -v $program >/dev/null || { echo "SKIP: $program is not installed"; exit 77; }
done
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
prefix="$scratch/a prefix"
flags=() # the static library needs the runtime of what it was built with
[ -z "$sanitize" ] || flags=("-fsanitize=$sanitize")

fail() { echo "FAIL: $*"; exit 1; }

# The manifests of the build folder are for `uninstall`: those of this test are
# put aside, and the ones from before are put back.
mkdir "$scratch/before" "$scratch/manifests"
mv "$build"/install_manifest*.txt "$scratch/before/" 2>/dev/null || true
put_back() {
  mv "$scratch"/before/* "$build/" 2>/dev/null || true
  rm -rf "$scratch"
}
trap put_back EXIT
for component in '' debug; do
  cmake --install "$build" --prefix "$prefix" \
    ${component:+--component $component} >"$scratch/log" ||
    { cat "$scratch/log"; fail "cmake --install $component"; }
  mv "$build"/install_manifest*.txt "$scratch/manifests/"
done

echo "-- every header alone, as C17 and C++17; all together"
mlir=$(llvm-config-22 --includedir 2>/dev/null) || mlir=/nonexistent
for header in "$prefix"/include/nabla/*.h; do
  name=nabla/${header##*/}
  if grep -q '#include <mlir-c/' "$header"; then
    [ -d "$mlir/mlir-c" ] || continue # needs headers of MLIR, not here
    printf '#include "%s"\n' "$name" >"$scratch/one.c"
    for language in "c -std=c17" "c++ -std=c++17"; do
      # shellcheck disable=SC2086 # two words
      "$cc" -x $language -Wall -Wextra -Wpedantic -Werror -fsyntax-only \
        -isystem "$mlir" -I "$prefix/include" "$scratch/one.c" ||
        fail "$name as ${language%% *}"
    done
    continue
  fi
  printf '#include "%s"\n' "$name" | tee -a "$scratch/all.cpp" >"$scratch/one.c"
  cp "$scratch/one.c" "$scratch/one.cpp"
  "$cc" -std=c17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only \
    -I "$prefix/include" "$scratch/one.c" || fail "$name as C17"
  c++ -std=c++17 -Wall -Wextra -Wpedantic -Werror -fsyntax-only \
    -I "$prefix/include" "$scratch/one.cpp" || fail "$name as C++17"
done
cat >>"$scratch/all.cpp" <<'C'
int main() { return nabla_encoding_find("nf4") ? 0 : 1; }
C

# with_pkg_config LIBRARY PROGRAM ARGUMENT...: shared and static
with_pkg_config() {
  local name=$1 program=$2 pc
  shift 2
  echo "-- pkg-config: $name"
  pc=$(find "$prefix" -name "$name.pc")
  [ -n "$pc" ] || fail "no $name.pc"
  export PKG_CONFIG_PATH=${pc%/*}
  libdir=$(dirname "$PKG_CONFIG_PATH")
  # pkg-config quotes the space of the path: eval undoes that
  cflags=() libs=() static=()
  eval "cflags=($(pkg-config --cflags "$name")) libs=($(pkg-config --libs "$name"))"
  eval "static=($(pkg-config --static --libs "$name"))"
  export LD_LIBRARY_PATH=$libdir
  local compile=("$cc" -std=c17 ${flags[@]+"${flags[@]}"} "$source/tests/install/$program.c")
  "${compile[@]}" "${cflags[@]}" "${libs[@]}" -o "$scratch/shared"
  "$scratch/shared" "$@" || fail "pkg-config, $name, shared: wrong result"
  readelf -d "$scratch/shared" | grep -q "NEEDED.*lib$name\.so\." ||
    fail "the program does not name the versioned library"
  # --static says what else to link; -l: asks for the archive itself
  static=("${static[@]/#-l$name/-l:lib$name.a}")
  "${compile[@]}" "${cflags[@]}" "${static[@]}" -o "$scratch/static"
  LD_LIBRARY_PATH='' "$scratch/static" "$@" ||
    fail "pkg-config, $name, static: wrong result"
}

with_pkg_config nabla-runtime consume_runtime "$scratch/model.safetensors"
with_pkg_config nabla-quant consume
if [ -z "$sanitize" ]; then
  c++ -std=c++17 "${cflags[@]}" "$scratch/all.cpp" "${libs[@]}" -o "$scratch/all"
  "$scratch/all" || fail "C++17 program: wrong result"
fi

echo "-- CMake"
mkdir "$scratch/project"
cp "$source"/tests/install/consume*.c "$scratch/project/"
cat >"$scratch/project/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.25)
project(consume LANGUAGES C)
find_package(NablaQuant 0.1 CONFIG REQUIRED)
add_executable(shared consume.c)
target_link_libraries(shared PRIVATE nabla::quant)
add_executable(static consume.c)
target_link_libraries(static PRIVATE nabla::quant-static)
find_package(NablaRuntime 0.1 CONFIG REQUIRED)
add_executable(runtime consume_runtime.c)
target_link_libraries(runtime PRIVATE nabla::runtime nabla::quant)
add_executable(runtime-static consume_runtime.c)
target_link_libraries(runtime-static PRIVATE nabla::runtime-static nabla::quant-static)
C
{ cmake -S "$scratch/project" -B "$scratch/out" -G Ninja \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="${flags[*]-}" \
    -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$scratch/out"; } \
  >"$scratch/log" 2>&1 || { cat "$scratch/log"; fail "CMake project"; }
"$scratch/out/shared" || fail "CMake, shared: wrong result"
LD_LIBRARY_PATH='' "$scratch/out/static" || fail "CMake, static: wrong result"
"$scratch/out/runtime" "$scratch/model.safetensors" ||
  fail "CMake, runtime, shared: wrong result"
LD_LIBRARY_PATH='' "$scratch/out/runtime-static" "$scratch/model.safetensors" ||
  fail "CMake, runtime, static: wrong result"

echo "-- examples"
installed=$(dirname "$(find "$prefix" -name extend.c)")
[ "$(find "$installed" -name '*.c' | wc -l)" -eq \
  "$(find "$source/examples" -name '*.c' | wc -l)" ] || fail "examples are missing"
cat >"$scratch/project/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.25)
project(examples LANGUAGES C)
foreach(package NablaQuant NablaRuntime)
  find_package(${package} 0.1 CONFIG REQUIRED)
endforeach()
C
for example in "$installed"/*.c; do
  name=$(basename "$example" .c)
  # each says how it is built
  package=$(sed -n 's/.*pkg-config --cflags --libs \([a-z-]*\)).*/\1/p' "$example")
  [ -n "$package" ] || fail "$name.c does not say how it is built"
  pc=$(find "$prefix" -name "$package.pc")
  [ -n "$pc" ] || { [ "$package" = nabla-mlir ] && continue; fail "no $package.pc"; }
  export PKG_CONFIG_PATH=${pc%/*}
  libdir=$(dirname "$PKG_CONFIG_PATH")
  options=()
  eval "options=($(pkg-config --cflags --libs "$package"))"
  "$cc" -std=c17 ${flags[@]+"${flags[@]}"} "$example" "${options[@]}" \
    -o "$scratch/$name" || fail "$name.c with pkg-config $package"
  target=nabla::${package#nabla-}
  [ "$package" != nabla-mlir ] ||
    echo 'find_package(Nabla 0.1 CONFIG REQUIRED COMPONENTS mlir)' \
      >>"$scratch/project/CMakeLists.txt"
  printf 'add_executable(%s "%s")\ntarget_link_libraries(%s PRIVATE %s)\n' \
    "$name" "$example" "$name" "$target" >>"$scratch/project/CMakeLists.txt"
done
{ cmake -S "$scratch/project" -B "$scratch/examples" -G Ninja \
    -DCMAKE_C_COMPILER="$cc" -DCMAKE_C_FLAGS="${flags[*]-}" \
    -DCMAKE_PREFIX_PATH="$prefix" && cmake --build "$scratch/examples"; } \
  >"$scratch/log" 2>&1 || { cat "$scratch/log"; fail "CMake, examples"; }
LD_LIBRARY_PATH=$libdir "$scratch/make_checkpoint" --out "$scratch/made" \
  --megabytes 1 >"$scratch/log" || { cat "$scratch/log"; fail "make_checkpoint"; }
if [ -x "$scratch/extend" ]; then
  LD_LIBRARY_PATH=$libdir "$scratch/extend" >"$scratch/log" ||
    { cat "$scratch/log"; fail "extend, pkg-config"; }
  "$scratch/examples/extend" >"$scratch/log" ||
    { cat "$scratch/log"; fail "extend, CMake"; }
else
  echo "SKIP: extend.c: built without the compiler"
fi

echo "-- pages link to pages that are installed"
while IFS= read -r page; do
  grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//' | grep -vE '^[a-z]+:' |
    while IFS= read -r link; do
      [ -e "$(dirname "$page")/$link" ] || echo "$page: $link"
    done || true # a page without links
done < <(find "$prefix" -name '*.md') >"$scratch/log"
[ ! -s "$scratch/log" ] || { cat "$scratch/log"; fail "links lead nowhere"; }
[ "$(find "$prefix" -name '*.md' | wc -l)" -ge 10 ] || fail "pages are missing"

if grep -q '^CMAKE_BUILD_TYPE:.*=Release$' "$build/CMakeCache.txt" && [ -z "$sanitize" ]; then
  echo "-- debug information lies apart"
  while IFS= read -r file; do
    readelf -hS "$file" >"$scratch/elf" 2>/dev/null || continue
    if grep -qE '\.z?debug_info' "$scratch/elf"; then
      fail "$file has debug information"
    fi
    case $file in *.a) continue ;; esac
    grep -q gnu_debuglink "$scratch/elf" || fail "$file has no debug link"
    debug=$(readelf -p .gnu_debuglink "$file" | grep -oE '[^ ]+\.debug')
    readelf -S "$(dirname "$file")/.debug/$debug" >"$scratch/elf" 2>/dev/null
    grep -qE '\.z?debug_info' "$scratch/elf" ||
      fail "$debug holds no debug information"
  done < <(find "$prefix" -type f \( -path '*/bin/*' -o -path '*/libexec/*' -o -name '*.so.*' -o \
    -name '*.a' \) ! -name '*.debug')
fi

if [ -x "$prefix/bin/nabla-quant" ]; then
  echo "-- the tool"
  LD_LIBRARY_PATH='' "$prefix/bin/nabla-quant" --version
  readelf -hd "$prefix/bin/nabla-quant" >"$scratch/elf"
  grep -q 'Type: *DYN' "$scratch/elf" || fail "the tool is not a PIE"
  [ -n "$sanitize" ] || grep -q 'BIND_NOW\|NOW' "$scratch/elf" ||
    fail "the tool is linked without -z now"
fi

if [ -d "$prefix/libexec/nabla" ]; then
  echo "-- nabla-run, with the compiler in a program of its own"
  readelf -d "$prefix/bin/nabla-run" >"$scratch/elf"
  grep -qE 'NEEDED.*(LLVM|MLIR)' "$scratch/elf" && fail "nabla-run needs LLVM"
  echo 'func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
    return %x : tensor<4xf32> }' |
    LD_LIBRARY_PATH='' "$prefix/bin/nabla-run" - -i 0=random:4 ||
    fail "the installed nabla-run"
fi

echo "-- uninstalling"
touch "$prefix/lib/of another"
cmake -DBUILD="$scratch/manifests" -P "$source/cmake/uninstall.cmake" \
  >"$scratch/log" || { cat "$scratch/log"; fail "uninstall"; }
left=$(find "$prefix" ! -type d)
[ "$left" = "$prefix/lib/of another" ] || fail "uninstalling left: $left"
find "$prefix" -type d -iname '*nabla*' | grep . && fail "folders are left"
cmake -DBUILD="$scratch/manifests" -P "$source/cmake/uninstall.cmake" \
  2>"$scratch/log" && fail "uninstalling twice"
grep -q 'nothing was installed' "$scratch/log" || fail "no reason is given"
# what cannot be removed is an error, and can be tried again
mkdir "$scratch/full"
echo "$scratch/full" >"$scratch/manifests/install_manifest.txt"
for i in 1 2; do
  cmake -DBUILD="$scratch/manifests" -P "$source/cmake/uninstall.cmake" \
    >"$scratch/log" 2>&1 && fail "uninstalling what cannot be removed, $i"
  grep -q 'cannot be removed' "$scratch/log" || fail "no reason is given, $i"
done
# a path that would be a pattern of names
odd="$scratch/p[re]fix*/nabla"
mkdir -p "$odd" "$scratch/b[ui]ld"
touch "$odd/ours" "$odd/of another"
echo "$odd/ours" >"$scratch/b[ui]ld/install_manifest.txt"
cmake -DBUILD="$scratch/b[ui]ld" -P "$source/cmake/uninstall.cmake" \
  >"$scratch/log" 2>&1 || { cat "$scratch/log"; fail "uninstall, odd path"; }
[ "$(find "$odd" ! -type d)" = "$odd/of another" ] ||
  fail "uninstalling left in an odd path: $(find "$odd")"

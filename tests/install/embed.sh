#!/bin/bash
# examples/embed, copied out of the installed tree as an engine's author would,
# builds by CMake and by make against a staged install, and its programs give the
# product that awk computes. Components that are not there are refused by name.
#
#   embed.sh SOURCE BUILD CC PYTHON [SANITIZE]
set -euo pipefail
source=$1 build=$2 cc=$3 python=$4 sanitize=${5-}
targets=""
for program in pkg-config make awk; do
  command -v $program >/dev/null || { echo "SKIP: $program is not installed"; exit 77; }
done
scratch=$(mktemp -d)
prefix="$scratch/a prefix"
# the lists of installed files are for `uninstall`
mkdir "$scratch/lists"
mv "$build"/install_manifest*.txt "$scratch/lists/" 2>/dev/null || true
end() {
  rm -f "$build"/install_manifest*.txt
  mv "$scratch"/lists/* "$build/" 2>/dev/null || true
  rm -rf "$scratch"
}
trap end EXIT
fail() {
  tail -n 30 "$scratch/log" 2>/dev/null || true
  echo "FAIL: $*"
  exit 1
}
run() { "$@" >"$scratch/log" 2>&1 || fail "$*"; }

run cmake --install "$build" --prefix "$prefix"
export LD_LIBRARY_PATH NABLA_CACHE="$scratch/cache"
LD_LIBRARY_PATH=$(dirname "$(find "$prefix" -name libnabla-quant.so)")
PKG_CONFIG_PATH=$LD_LIBRARY_PATH/pkgconfig
export PKG_CONFIG_PATH
folder=$(dirname "$(find "$prefix" -path '*embed/Makefile')")
has_compiler=''
[ ! -f "$PKG_CONFIG_PATH/nabla.pc" ] || has_compiler=1

# row n of w has -(n + 1), 0, n + 1 by turns, x is 0 to 63
expected=$(awk 'BEGIN { for (n = 0; n < 4; n++) { y = 0
  for (k = 0; k < 64; k++) y += ((n + k) % 3 - 1) * (n + 1) * k
  print y } }')

# use FOLDER: runs the programs that were built there
use() {
  local program
  run "$1/pack" "$scratch/dense.safetensors" "$scratch/packed.safetensors"
  for program in multiply ${has_compiler:+compile}; do
    run "$1/$program" "$scratch/packed.safetensors"
    [ "$(cat "$scratch/log")" = "$expected" ] ||
      fail "$1/$program: expected $expected"
    "$1/$program" "$scratch/nothing.safetensors" >"$scratch/log" 2>&1 &&
      fail "$program succeeds without a file"
    grep -q 'nothing.safetensors' "$scratch/log" || fail "$program names no file"
  done
}

# a random model of two layers; with a trained one, the text is known
model=''
if "$python" -c 'import numpy' 2>/dev/null; then
  model=$scratch/random
  run "$python" -B "$source/bench/llama2c/make_checkpoint.py" "$model" 64 192 2 4 2 512 64
  run rm "$model/model.bin"
else
  echo "generate is not tried: $python has no numpy"
fi
# generates FOLDER: the text, dense and from what nabla-quant packs
generates() {
  run "$1/generate" "$model" hello 8
  grep -qa '^hello.' "$scratch/log" || fail "$1/generate: no text"
  [ ! -f "$scratch/text" ] || cmp "$scratch/text" "$scratch/log" || fail "another text"
  cp "$scratch/log" "$scratch/text"
  rm -rf "$scratch/int8"
  run "$prefix/bin/nabla-quant" quantize "$model" -o "$scratch/int8" -e int8
  run "$1/generate" "$scratch/int8" hello 8
  grep -qa '^hello.' "$scratch/log" || fail "$1/generate: packed"
  "$1/generate" "$model" hello 600 >/dev/null 2>"$scratch/log" &&
    fail "more tokens than the cache holds"
  grep -q 64 "$scratch/log" || fail "the cache's size is not named"
  local trained=${NABLA_MODELS-/nonexistent}/stories260K
  [ -f "$trained/stories260K-f32.safetensors" ] || return 0
  mkdir -p "$scratch/stories"
  cp "$trained/config.json" "$trained/tokenizer.bin" "$scratch/stories/"
  cp "$trained/stories260K-f32.safetensors" "$scratch/stories/model.safetensors"
  run "$1/generate" "$scratch/stories" 'Once upon a time' 20
  grep -q '^Once upon a time, there was a little girl named Lily' "$scratch/log" ||
    fail "$1/generate: another text"
}

flags="-Wall -Wextra -Werror${sanitize:+ -fsanitize=$sanitize}"
for kind in cmake make; do
  cp -R "$folder" "$scratch/$kind"
  echo "-- $kind"
  if [ $kind = make ]; then
    (cd "$scratch/make" && run make CC="$cc" CFLAGS="$flags")
    use "$scratch/make"
    [ -z "$has_compiler" ] || [ -z "$model" ] || generates "$scratch/make"
    [ -n "$has_compiler" ] || [ ! -e "$scratch/make/compile" ] || fail "compile"
    (cd "$scratch/make" && run make clean)
    [ ! -e "$scratch/make/pack" ] || fail "make clean leaves pack"
  else
    run cmake -S "$scratch/cmake" -B "$scratch/out" -DCMAKE_C_COMPILER="$cc" \
      -DCMAKE_C_FLAGS="$flags" -DCMAKE_PREFIX_PATH="$prefix"
    run cmake --build "$scratch/out"
    use "$scratch/out"
    [ -z "$has_compiler" ] || [ -z "$model" ] || generates "$scratch/out"
  fi
done

# finds COMPONENT...: whether a project that asks for them is configured
finds() {
  mkdir -p "$scratch/ask"
  cat >"$scratch/ask/CMakeLists.txt" <<C
cmake_minimum_required(VERSION 3.20)
project(ask LANGUAGES C)
find_package(Nabla 0.1 CONFIG REQUIRED ${*:+COMPONENTS $*})
foreach(target $targets)
  if(NOT TARGET \${target})
    message(FATAL_ERROR "no target \${target}")
  endif()
endforeach()
C
  rm -rf "$scratch/asked"
  cmake -S "$scratch/ask" -B "$scratch/asked" -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/log" 2>&1
}
echo "-- components"
targets='nabla::quant nabla::quant-static' finds quant || fail "quant"
targets='nabla::runtime nabla::runtime-static' finds runtime || fail "runtime"
targets='' finds quant nothing && fail "a component that does not exist is found"
tr -s ' \n' ' ' <"$scratch/log" | grep -q "no component 'nothing'" ||
  fail "the component is not named"
if [ -n "$has_compiler" ]; then
  targets='nabla::quant nabla::runtime nabla::compiler nabla::nabla' \
    finds quant runtime compiler || fail "all"
  targets=nabla::nabla finds || fail "without components"
  rm "$(find "$prefix" -name NablaTargets.cmake)" # as without that Debian package
  targets=nabla::quant finds quant runtime || fail "without libnabla"
fi
targets='' finds && fail "libnabla is found without its targets"
targets='' finds runtime compiler && fail "compiler is found without its targets"
tr -s ' \n' ' ' <"$scratch/log" | grep -q 'libnabla-compiler-dev' ||
  fail "the package is not named"

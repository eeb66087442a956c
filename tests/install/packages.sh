#!/bin/bash
# The Debian packages: made by cpack, without an error of lintian, installed into a
# fresh root of debootstrap, used there, and purged. A program that links the
# library is built in the root by CMake and by make, with what the packages depend
# on and a compiler alone; afterwards no file is left that was not there before.
#
#   packages.sh SOURCE BUILD CC CXX      BUILD has kernels, which are taken over
#   packages.sh FOLDER                   packages that were made before
set -euo pipefail
skip() { echo "SKIP: $*"; exit 77; }
for program in debootstrap dpkg-shlibdeps unshare chroot ninja; do
  command -v $program >/dev/null || skip "$program is not installed"
done
[ "$(id -u)" = 0 ] || skip "needs root, for a root folder of its own"
unshare --mount --pid --fork true 2>/dev/null || skip "no namespaces"
mirror=$({ cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null || true; } |
  sed -nE 's/^URIs: *//p; s/^deb +(\[[^]]*\] +)?([^ ]+) .*/\2/p' |
  awk '/\/debian\/?$/ && !n++')
[ -n "$mirror" ] || skip "no mirror of Debian is known to apt"
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
scratch=$(mktemp -d)
root=$scratch/root
end() {
  umount -l "$root/proc" 2>/dev/null || true
  rm -rf --one-file-system "$scratch"
}
trap end EXIT
fail() {
  tail -n 30 "$scratch/log" 2>/dev/null || true
  echo "FAIL: $*"
  exit 1
}
run() { "$@" >"$scratch/log" 2>&1 || fail "$*"; }

echo "-- packages"
if [ $# = 1 ]; then
  debs=("$1"/*.deb)
else
  source=$1 build=$2 cc=$3 cxx=$4
  launcher=()
  ! command -v ccache >/dev/null || launcher=(-DCMAKE_C_COMPILER_LAUNCHER=ccache
    -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  kernels=$build/lib/ahead/kernels
  ! compgen -G "$kernels/*.o" >/dev/null || launcher+=("-DNABLA_AHEAD_FROM=$kernels")
  run cmake -S "$source" -B "$scratch/build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_INSTALL_PREFIX=/usr -DNABLA_TESTS=OFF -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_CXX_COMPILER="$cxx" ${launcher[@]+"${launcher[@]}"}
  run cmake --build "$scratch/build"
  (cd "$scratch/build" && run cpack)
  debs=("$scratch/build/packages/"*.deb)
fi
# field PACKAGE FIELD
field() {
  local deb
  for deb in "${debs[@]}"; do
    [[ ${deb##*/} != "$1"_* ]] || dpkg-deb -f "$deb" "$2"
  done
}
names=$(for deb in "${debs[@]}"; do dpkg-deb -f "$deb" Package; done | sort | tr '\n' ' ')
echo "$names"
[ "$names" = 'libnabla-compiler-dev libnabla-dev libnabla-quant0 libnabla-runtime0 libnabla0 nabla-tools ' ] ||
  fail "other packages"
for library in quant runtime; do
  depends=$(field "libnabla-${library}0" Depends)
  [[ $depends =~ ^libc6\ \(\>=\ [0-9.]+\)$ ]] ||
    fail "libnabla-$library depends on more than libc: $depends"
done
field libnabla0 Depends | grep -q libmlir-22 ||
  fail "libnabla0 does not depend on MLIR"
if command -v lintian >/dev/null; then
  run lintian --allow-root --fail-on error "${debs[@]}"
else
  echo "lintian is not installed: its rules were not tried"
fi

echo "-- a fresh root"
debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$scratch/log" 2>&1 ||
  { tail -n 3 "$scratch/log"; skip "debootstrap: $mirror is not reached"; }
rm -f "$root/etc/apt/sources.list"
cp /etc/apt/sources.list "$root/etc/apt/" 2>/dev/null || true
for file in /etc/apt/sources.list.d/*; do # Debian's own
  ! grep -q "$mirror" "$file" || cp "$file" "$root/etc/apt/sources.list.d/"
done
cp -r /usr/share/keyrings/. "$root/usr/share/keyrings/"
cp /etc/apt/apt.conf.d/99* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
cp -L /etc/resolv.conf "$root/etc/"
cp -L /etc/hosts "$root/etc/" 2>/dev/null || true
mkdir "$root/debs"
cp "${debs[@]}" "$root/debs/"
inside() {
  run unshare --mount --pid --fork --kill-child chroot "$root" /usr/bin/env -i \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
    NABLA_CACHE=/srv/cache \
    /bin/sh -c "mount -t proc proc /proc && cd /srv && $*"
}
install='apt-get install -y --no-install-recommends'
inside "apt-get update && $install gcc libc6-dev make cmake pkgconf man-db"
# what the packages depend on; our own must leave no trace beside it
inside "$install libmlir-22"
files() { (cd "$root" && find . -xdev ! -path './srv/*' ! -path './debs*' \
  ! -path './var/log*' ! -path './var/cache*' ! -path './var/lib/dpkg*' \
  ! -path './var/lib/apt*' ! -path './proc*' ! -path './tmp*' | sort); }
files >"$scratch/before"

echo "-- the runtime alone"
inside "$install /debs/libnabla-quant0_* /debs/libnabla-runtime0_* /debs/libnabla-dev_*"
[ ! -e "$root/usr/include/nabla/compiler.h" ] || fail "libnabla-dev has compiler.h"
embed=/usr/share/doc/nabla/examples/embed
use='out/pack d.safetensors p.safetensors && out/multiply p.safetensors >multiply'
inside "cmake -S $embed -B out && cmake --build out && $use && test ! -e out/compile"
inside "cp -r $embed make && cd make && make && ./multiply ../p.safetensors | cmp - ../multiply"
inside "test \$(wc -l <multiply) = 4"

echo "-- everything"
inside "$install /debs/*.deb"
inside "rm -r out && cmake -S $embed -B out && cmake --build out && $use &&
  out/compile p.safetensors | cmp - multiply"
inside "rm -r make && cp -r $embed make && cd make && make &&
  ./compile ../p.safetensors | cmp - ../multiply"
inside "nabla-quant verify p.safetensors && nabla-quant quantize d.safetensors -o q.safetensors -e int8"
cat >"$root/srv/f.mlir" <<'M'
!w = !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>>
func.func @f(%x: tensor<1x64xf32>, %w: !w) -> tensor<1x64xf32> {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<1x64xf32>, !w
  return %y : tensor<1x64xf32>
}
M
bind='-i 0=random:1x64 -b 1=p.safetensors:layer.weight'
inside "nabla-opt --nabla-dispatch f.mlir | grep -q fused_dot"
inside "nabla-run f.mlir $bind -o y.npy && nabla-compile f.mlir -o f.so &&
  nabla-run f.so $bind -o z.npy && cmp y.npy z.npy"
for tool in nabla-quant nabla-run nabla-compile nabla-opt; do
  inside "man -w $tool && zcat \$(man -w $tool) | grep -q NAME"
  [ -s "$root/usr/share/bash-completion/completions/$tool" ] || fail "$tool: bash"
  [ -s "$root/usr/share/zsh/site-functions/_$tool" ] || fail "$tool: zsh"
  [ -s "$root/usr/share/fish/vendor_completions.d/$tool.fish" ] || fail "$tool: fish"
done

echo "-- gone again"
inside "apt-get purge -y $names && ! ldconfig -p | grep nabla"
# the cache of manual pages is made by man-db whenever a page comes
files | diff "$scratch/before" - >"$scratch/log" || fail "files are left, or lack"
inside "! dpkg -l | grep nabla"

# Sourced by scripts/demo and scripts/test: where things are, how steps are
# announced and timed, and how missing Debian packages come onto the machine.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build
mkdir -p "$build"
jobs=$(nproc)

# say TEXT: a line of the script itself, told apart from what programs print
say() { printf '==> %s\n' "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$*" >&2
  exit 1
}

duration() {
  if [ "$1" -lt 60 ]; then printf '%d s' "$1"; else
    printf '%d min %02d s' $(($1 / 60)) $(($1 % 60)); fi
}

# missing PACKAGE[=COMMAND]...: prints the packages that are neither installed
# nor, where a command is named, provided by other means
missing() {
  local entry package
  for entry; do
    package=${entry%%=*}
    if [ "$entry" != "$package" ] && command -v "${entry#*=}" >/dev/null 2>&1
    then continue; fi
    case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
      'install ok installed') ;;
      *) printf '%s ' "$package" ;;
    esac
  done
}

# as_root COMMAND...: runs it as root; 1 if there is no way to
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null 2>&1; then
    if [ -t 0 ]; then sudo "$@"; else sudo -n "$@"; fi
  else
    return 1
  fi
}

apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q "$@" </dev/null; }

updated=''
install_packages() {
  local log=$build/apt.log
  if [ -z "$updated" ]; then
    apt update >"$log" 2>&1 || true # an old list may do
    updated=1
  fi
  apt install -y --no-install-recommends "$@" >>"$log" 2>&1
}

# need PACKAGE[=COMMAND]...: installs what is missing, or says how and stops
need() {
  local lacking begin=$SECONDS
  command -v dpkg-query >/dev/null 2>&1 || { need_commands "$@"; return; }
  lacking=$(missing "$@")
  [ -n "$lacking" ] || return 0
  say "installing Debian packages: $lacking"
  # shellcheck disable=SC2086 # a list of package names
  if ! install_packages $lacking; then
    [ ! -f "$build/apt.log" ] || tail -n 5 "$build/apt.log" >&2
    printf 'These packages are missing. Install them as root, then run this again:\n  apt-get update && apt-get install -y --no-install-recommends %s\n' "$lacking" >&2
    exit 1
  fi
  say "installed in $(duration $((SECONDS - begin)))"
}

# Not Debian: trust what is there.
need_commands() {
  local entry
  for entry; do
    [ "${entry%%=*}" != "$entry" ] || continue
    command -v "${entry#*=}" >/dev/null 2>&1 ||
      die "needs the command '${entry#*=}'; install it, then run this again"
  done
}

# want PACKAGE[=COMMAND]...: installs what can be had; what cannot is left to
# the steps that use it, which say that they are skipped
want() {
  local package lacking found=''
  command -v dpkg-query >/dev/null 2>&1 || return 0
  lacking=$(missing "$@")
  [ -n "$lacking" ] || return 0
  if [ -z "$updated" ]; then
    apt update >"$build/apt.log" 2>&1 || true
    updated=1
  fi
  for package in $lacking; do
    if apt-cache show "$package" >/dev/null 2>&1; then
      found="$found $package"
    fi
  done
  [ -n "$found" ] || return 0
  say "installing Debian packages:$found"
  # shellcheck disable=SC2086 # a list of package names
  install_packages $found ||
    say "could not install:$found; steps that need them are skipped"
}

targets=() # that build_preset builds; none: all

# lld_flags: sets `linking` to arguments of CMake that make LLVM 22's linker link
# a new build: the programs that contain MLIR's C API take it a tenth of the time.
# gcc looks for the name ld.lld in the folder of -B.
lld_flags() {
  local lld kind
  linking=()
  lld=$(command -v ld.lld-22) || return 0
  mkdir -p "$build/linker"
  ln -sf "$lld" "$build/linker/ld.lld"
  for kind in EXE SHARED MODULE; do
    linking+=("-DCMAKE_${kind}_LINKER_FLAGS_INIT=-fuse-ld=lld -B\"$build/linker\"")
  done
}

# build_preset NAME [CMAKE ARG]...: configures and builds into build/NAME, through
# ccache and with lld where these are installed
build_preset() {
  local preset=$1 launchers=() linking=()
  shift
  if [ -z "${CMAKE_C_COMPILER_LAUNCHER-}" ] && command -v ccache >/dev/null; then
    launchers=(-DCMAKE_C_COMPILER_LAUNCHER=ccache
      -DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  lld_flags
  (cd "$root" && cmake --preset "$preset" ${linking[@]+"${linking[@]}"} \
    ${launchers[@]+"${launchers[@]}"} "$@" >"$build/$preset.log" 2>&1) || {
    tail -n 30 "$build/$preset.log" >&2
    return 1
  }
  cmake --build "$build/$preset" -j "$jobs" \
    ${targets[@]+--target "${targets[@]}"} >>"$build/$preset.log" 2>&1 || {
    grep -E -A5 'error|FAILED' "$build/$preset.log" | tail -n 60 >&2
    return 1
  }
}

# shellcheck shell=sh
# shellcheck disable=SC2154 # the test sets source
# A copy of the sources in which a test of this folder changes files and builds.
# The test sets `source`, the folder of the sources.
#
#   . "$source/tests/install/tree.sh"

# skip_without PROGRAM...: ends the test as skipped where one is not installed
skip_without() {
  for program; do
    command -v "$program" >/dev/null || {
      echo "skipped: $program is not there"
      exit 77
    }
  done
}

# skip_without_modules PYTHON MODULES: the same of Python's, as import takes them
skip_without_modules() {
  "$1" -c "import $2" 2>/dev/null || {
    echo "skipped: one of $2 is not there"
    exit 77
  }
}

# copy_tree NAME: sets `work`, a temporary folder, and goes to the copy in it,
# $work/tree
copy_tree() {
  work=$(mktemp -d "${TMPDIR:-/tmp}/nabla-$1.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  mkdir "$work/tree"
  for part in CMakeLists.txt CMakePresets.json cmake include lib quant dialect python \
    transforms tools tests bench docs scripts examples LICENSE README.md \
    CHANGELOG.md CONTRIBUTING.md SECURITY.md; do
    [ ! -e "$source/$part" ] || cp -R "$source/$part" "$work/tree/"
  done
  cd "$work/tree" || exit 1
}

# fail WORDS...: ends the test, with the end of $work/log
fail() {
  [ ! -f "$work/log" ] || tail -n 40 "$work/log"
  echo "FAILED: $*"
  exit 1
}

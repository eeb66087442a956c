#!/bin/bash
# fresh.sh WHEELS SOURCE PYTHON PACKAGES: installs both wheels in a fresh virtual
# environment of a root that has the C library, Python and its standard library, and
# the C++ library, which NumPy needs: no compiler, no LLVM. Runs the tour and the tests,
# by pytest, there. PACKAGES is a folder with wheels of numpy, pytest
# and what these need (`pip download numpy pytest`). Exits 77 without them, without the
# wheels, or where it cannot make a root: it needs to be root, or user namespaces.
set -euo pipefail
if [ $# != 4 ]; then
  echo "usage: fresh.sh WHEELS SOURCE PYTHON PACKAGES" >&2
  exit 2
fi
if ! compgen -G "$1/*.whl" >/dev/null || ! compgen -G "$4/numpy-*.whl" >/dev/null; then
  echo "skipped: no wheels in $1 (ninja python-wheels), or of numpy in $4"
  exit 77
fi
wheels=$(readlink -f "$1") source=$(readlink -f "$2") python=$(readlink -f "$3")
packages=$(readlink -f "$4")
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
library=$("$python" -c 'import os; print(os.path.dirname(os.__file__))')

# copy_with_libraries FILE...: to the same places of the root
copy_with_libraries() {
  local file
  for file in "$@"; do
    ldd "$file" 2>/dev/null | grep -o '/[^ )]*' || true
  done | sort -u | while read -r file; do
    install -D "$file" "$root$file"
  done
}

mkdir -p "$root/usr/bin" "$root$library" "$root/tmp" "$root/proc" "$root/in" \
  "$root/dev" "$root/usr/share"
cp "$python" "$root/usr/bin/python3"
copy_with_libraries "$python" "$library"/lib-dynload/*.so
cp -r "$library/." "$root$library/"
rm -rf "$root$library/test" "$root$library/dist-packages" \
  "$root$library/site-packages" "$root$library"/EXTERNALLY-MANAGED
[ ! -d /usr/share/python-wheels ] || cp -r /usr/share/python-wheels "$root/usr/share/"
cp -r "$wheels"/*.whl "$packages" "$source/tests/python" \
  "$source/examples/arrays/tour.py" "$root/in/"
mv "$root/in/$(basename "$packages")" "$root/in/packages"
# NumPy's wheel needs the C++ library of the system; those of Nabla do not
for file in libstdc++.so.6 libgcc_s.so.1 libpthread.so.0 libdl.so.2 librt.so.1; do
  install -D "$("${CC:-cc}" -print-file-name=$file)" \
    "$root/lib/x86_64-linux-gnu/$file"
done
names=()
for file in "$wheels"/*.whl; do names+=("/in/$(basename "$file")"); done
for stray in libLLVM libMLIR libzstd cc1 gcc; do
  if find "$root" -name "$stray*" -not -path "$root/in/*" | grep -q .; then
    echo "fresh.sh: the root has $stray" >&2
    exit 1
  fi
done
[ "$(id -u)" = 0 ] || unshare -r true || exit 77
enter=("$(command -v chroot)")
[ "$(id -u)" = 0 ] || enter=("$(command -v unshare)" -r "${enter[0]}")
mknod -m 666 "$root/dev/null" c 1 3 2>/dev/null || : >"$root/dev/null"
mknod -m 666 "$root/dev/urandom" c 1 9 2>/dev/null || true

# inside COMMAND...
inside() {
  env -i PATH=/venv/bin:/usr/bin HOME=/tmp LANG=C.UTF-8 "${enter[@]}" "$root" "$@"
}

inside /usr/bin/python3 -m venv /venv
# from files alone: nothing is downloaded
inside /venv/bin/python3 -m pip install "${names[@]}" pytest -q --no-index \
  --find-links /in/packages
inside /venv/bin/python3 -c "import numpy, nabla, nabla_runtime"
inside /venv/bin/python3 /in/tour.py
inside /venv/bin/python3 -m pytest -q -p no:cacheprovider /in/python/test_arrays.py \
  /in/python/test_functions.py /in/python/test_saved.py \
  /in/python/test_derivatives.py \
  /in/python/test_misuse.py /in/python/test_dlpack.py
for package in nabla_runtime nabla; do
  env -i PATH=/venv/bin:/usr/bin HOME=/tmp NABLA_PYTHON_PACKAGE=$package \
    "${enter[@]}" "$root" /venv/bin/python3 -m pytest -q -p no:cacheprovider \
    /in/python/test_runtime.py
done
echo "fresh.sh: Python $version, $(cd "$root/in" && echo nabla*.whl)"

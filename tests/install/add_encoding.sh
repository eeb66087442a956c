#!/bin/sh
# Adding an encoding touches three files: a row of encodings.def, quant/codec/<id>.c
# and a golden file. Shown with `thirds`, which is ternary under another name:
# the copy of the sources with these three builds, decodes its golden file, and
# quantizes a model with every option that takes an encoding.
#
#   add_encoding.sh SOURCE CC PYTHON
set -eu
source=$1 cc=$2 python=$3
# shellcheck source=tests/install/tree.sh
. "$source/tests/install/tree.sh"
skip_without_modules "$python" "numpy, safetensors"
copy_tree add-encoding

# The three files.
row=$(grep '^ENCODING(ternary,' quant/codec/encodings.def |
  sed 's/ternary, */thirds, /; s/, *5, 2,/, 4000, 2,/')
echo "$row" >>quant/codec/encodings.def
sed 's/ternary/thirds/g' quant/codec/ternary.c >quant/codec/thirds.c
sed 's/ternary/thirds/g' tests/golden/ternary.txt >tests/golden/thirds.txt

{
  cmake -S . -B "$work/build" -DCMAKE_C_COMPILER="$cc" -DNABLA_COMPILER=OFF \
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0
  cmake --build "$work/build" --parallel --target nabla-quant \
    --target golden_test
} >"$work/log" 2>&1 || fail "the sources with a new encoding do not build"
ctest --test-dir "$work/build" -R '^unit.golden_test$' --output-on-failure \
  >"$work/log" 2>&1 || fail "golden_test"
tool=$(find "$work/build" -name nabla-quant -type f -perm -u+x | head -n 1)
"$python" - "$work/in.safetensors" <<'END'
import sys
import numpy as np
from safetensors.numpy import save_file
x = np.random.default_rng(1).standard_normal((8, 96)).astype(np.float32)
save_file({"a.weight": x}, sys.argv[1])
END
for options in "" "--search" "--scale f16" "--scale dynamic8" "--block 16"; do
  for encoding in ternary thirds; do
    # shellcheck disable=SC2086 # options are words
    "$tool" quantize "$work/in.safetensors" -o "$work/$encoding.safetensors" \
      --force --quiet -e "$encoding" $options
    "$tool" dequantize "$work/$encoding.safetensors" --force --quiet \
      -o "$work/$encoding-back.safetensors"
    "$tool" verify --quiet "$work/$encoding.safetensors"
  done
  [ "$options" = --search ] || cmp "$work/ternary-back.safetensors" \
    "$work/thirds-back.safetensors"
done
echo "an encoding was added with: quant/codec/encodings.def quant/thirds.c" \
  "tests/golden/thirds.txt"

#!/bin/sh
# Adding a format of files of tensors touches three files: a row of
# quant/formats/formats.def, quant/formats/<id>.c, and a test. Shown in a copy of
# the sources with `toy`: lines of text, then data, either as they are or with
# each byte's bits inverted. The copy builds; a model in one or the other form is
# read through nabla-quant and nabla_model_open as if it were safetensors; without
# the three files it is refused again.
#
#   add_format.sh SOURCE CC PYTHON
set -eu
source=$1 cc=$2 python=$3
# shellcheck source=tests/install/tree.sh
. "$source/tests/install/tree.sh"
skip_without_modules "$python" "numpy, safetensors"
copy_tree add-format
cp quant/formats/formats.def "$work/formats.def"

# ---- the three files ----

cat >>quant/formats/formats.def <<'END'
TENSOR_FILE_FORMAT(toy, ".toy", "TOY ")
END
cat >quant/formats/toy.c <<'END'
/* A format for tests: "TOY plain" or "TOY inverted", a line "NAME DTYPE D0 D1"
 * for each tensor, an empty line, zeros up to byte 4096, data one behind the
 * other. */
#include <stdio.h>
#include <string.h>

#include "quant/formats/tensor_file.h"

enum { HEAD = 4096, MAX = 8 };

typedef struct toy {
  nabla_tensor_file base;
  int is_inverted;
  size_t count;
  uint64_t shapes[MAX][2], ends[MAX];
  nabla_dtype dtypes[MAX];
  char names[MAX][64];
} toy;

static nabla_status add(toy *t, const char *line, nabla_diag *diag) {
  char dtype[16];
  uint64_t *shape = t->shapes[t->count];
  if (t->count == MAX ||
      sscanf(line, "%63s %15s %3lu %3lu", t->names[t->count], dtype, &shape[0],
             &shape[1]) != 4)
    return nabla_fail(diag, NABLA_CORRUPT, "a wrong line: %.80s", line);
  NABLA_TRY(nabla_dtype_find(dtype, strlen(dtype), &t->dtypes[t->count], diag));
  const uint64_t begin = t->count ? t->ends[t->count - 1] : HEAD;
  t->ends[t->count] =
      begin + shape[0] * shape[1] * nabla_dtype_bits(t->dtypes[t->count]) / 8;
  t->count++;
  return NABLA_OK;
}

static nabla_status open_file(nabla_tensor_file *base, nabla_diag *diag) {
  toy *t = (toy *)base;
  char head[HEAD + 1] = "";
  if (nabla_file_size(base->file) < HEAD)
    return nabla_fail(diag, NABLA_CORRUPT, "the file is too short");
  NABLA_TRY(nabla_file_read(base->file, 0, head, HEAD, diag));
  char *at = strchr(head, '\n');
  if (!at || (memcmp(head, "TOY plain\n", 10) &&
              memcmp(head, "TOY inverted\n", 13)))
    return nabla_fail(diag, NABLA_CORRUPT, "neither plain nor inverted");
  t->is_inverted = head[4] == 'i';
  for (char *line = at + 1; (at = strchr(line, '\n')) && at > line;
       line = at + 1) {
    *at = '\0';
    NABLA_TRY(add(t, line, diag));
  }
  const uint64_t end = t->count ? t->ends[t->count - 1] : HEAD;
  return end == nabla_file_size(base->file)
             ? NABLA_OK
             : nabla_fail(diag, NABLA_CORRUPT, "the size is wrong");
}

static void close_file(nabla_tensor_file *base) { (void)base; }

static size_t count(const nabla_tensor_file *base) {
  return ((const toy *)base)->count;
}

static uint64_t begin_of(const toy *t, size_t index) {
  return index ? t->ends[index - 1] : HEAD;
}

static nabla_entry at(const nabla_tensor_file *base, size_t index) {
  const toy *t = (const toy *)base;
  const uint64_t *shape = t->shapes[index], begin = begin_of(t, index);
  return (nabla_entry){.name = t->names[index],
                       .name_length = strlen(t->names[index]),
                       .dtype = t->dtypes[index],
                       .rank = 2,
                       .shape = shape,
                       .elements = shape[0] * shape[1],
                       .offset = t->is_inverted ? NABLA_OFFSET_NONE : begin,
                       .bytes = t->ends[index] - begin};
}

static size_t find(const nabla_tensor_file *base, const char *name,
                   size_t length) {
  const toy *t = (const toy *)base;
  for (size_t i = 0; i < t->count; i++)
    if (strlen(t->names[i]) == length && !memcmp(t->names[i], name, length))
      return i;
  return SIZE_MAX;
}

static size_t metadata_count(const nabla_tensor_file *base) {
  (void)base;
  return 1;
}

static void metadata(const nabla_tensor_file *base, size_t index,
                     const char **out_key, const char **out_value) {
  (void)base, (void)index;
  *out_key = "origin";
  *out_value = "a toy";
}

static nabla_status read(const nabla_tensor_file *base, size_t index,
                         uint64_t from, void *out, size_t size,
                         nabla_diag *diag) {
  const toy *t = (const toy *)base;
  uint8_t *bytes = out;
  NABLA_TRY(nabla_file_read(base->file, begin_of(t, index) + from, out, size,
                            diag));
  for (size_t i = 0; t->is_inverted && i < size; i++)
    bytes[i] = (uint8_t)~bytes[i];
  return NABLA_OK;
}

const nabla_tensor_file_calls nabla_toy_calls = {
    .size = sizeof(toy),
    .open = open_file,
    .close = close_file,
    .count = count,
    .at = at,
    .find = find,
    .metadata_count = metadata_count,
    .metadata = metadata,
    .read = read};
END
cat >tests/unit/toy_test.c <<'END'
/* Files of the format toy, as models: $TOY_PLAIN is mapped, $TOY_INVERTED read. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "nabla/model.h"

static void expect_model(const char *path, int is_copied) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_model *model = NULL;
  nabla_weight weight;
  cr_assert(path);
  cr_assert_eq(nabla_model_open(path, NULL, &model, &diag), NABLA_OK, "%s",
               diag.what);
  cr_assert_eq(nabla_model_find(model, "b.weight", &weight, &diag), NABLA_OK);
  cr_assert_eq(weight.tensor.elements, 12 * 64);
  const float *values = weight.desc.components[0].data;
  for (int i = 0; i < 12 * 64; i++) cr_assert_eq(values[i], (float)i / 8);
  cr_expect_eq(weight.copied_bytes > 0, is_copied);
  const nabla_tensor_file *file =
      nabla_checkpoint_borrow_shard(nabla_model_borrow_checkpoint(model), 0);
  cr_expect_str_eq(nabla_tensor_file_format(file), "toy");
  cr_expect_eq(nabla_model_check_unchanged(model, &diag), NABLA_OK);
  nabla_model_close(model);
}

Test(toy, is_mapped) { expect_model(getenv("TOY_PLAIN"), 0); }
Test(toy, is_read) { expect_model(getenv("TOY_INVERTED"), 1); }
END

build() {
  cmake --build "$work/build" --parallel --target "$@" >"$work/log" 2>&1 ||
    fail "the sources do not build"
}

cmake -S . -B "$work/build" -DCMAKE_C_COMPILER="$cc" -DNABLA_COMPILER=OFF \
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG=-O0 >"$work/log" 2>&1 ||
  fail "CMake"
build nabla-quant toy_test
tool=$(find "$work/build" -name nabla-quant -type f -perm -u+x | head -n 1)

# ---- what is done with it ----

mkdir "$work/plain" "$work/inverted" "$work/index" "$work/both"
"$python" - "$work" <<'END'
import json
import sys
import numpy as np
from safetensors.numpy import save_file
work = sys.argv[1]
rng = np.random.default_rng(1)
a = rng.standard_normal((8, 128)).astype(np.float32)
b = (np.arange(12 * 64, dtype=np.float32) / 8).reshape(12, 64)
save_file({"a.weight": a, "b.weight": b}, work + "/in.safetensors",
          metadata={"origin": "a toy"})
data = a.tobytes() + b.tobytes()
for form in "plain", "inverted":
    head = "TOY %s\na.weight F32 8 128\nb.weight F32 12 64\n\n" % form
    stored = data if form == "plain" else bytes(255 - x for x in data)
    with open(work + "/%s/m.toy" % form, "wb") as out:
        out.write(head.encode().ljust(4096, b"\0") + stored)
# two shards of an index
for name, array in ("a", a), ("b", b):
    with open(work + "/index/%s.toy" % name, "wb") as out:
        head = "TOY plain\n%s.weight F32 %d %d\n\n" % (name, *array.shape)
        out.write(head.encode().ljust(4096, b"\0") + array.tobytes())
with open(work + "/index/model.safetensors.index.json", "w") as out:
    json.dump({"weight_map": {"a.weight": "a.toy", "b.weight": "b.toy"}}, out)
with open(work + "/truncated.toy", "wb") as out:
    out.write(open(work + "/plain/m.toy", "rb").read()[:-1])
END
TOY_PLAIN=$work/plain/m.toy TOY_INVERTED=$work/inverted/m.toy \
  "$(find "$work/build" -name toy_test -type f -perm -u+x)" >"$work/log" 2>&1 ||
  fail "nabla_model_open"

run() {
  "$tool" "$@" >"$work/log" 2>&1 || fail "nabla-quant $*"
}

refuse() { # STATUS TEXT ARGUMENT...
  status=$1 text=$2
  shift 2
  if "$tool" "$@" >"$work/log" 2>&1; then fail "nabla-quant $* succeeds"; fi
  "$tool" "$@" >/dev/null 2>&1 || [ $? = "$status" ] || fail "exit status"
  grep -qF "$text" "$work/log" || fail "no '$text'"
}

for encoding in nf4 int8; do
  run quantize "$work/in.safetensors" -o "$work/want.safetensors" --force \
    --quiet -e "$encoding"
  # a file, the folder that holds it, and shards that are merged
  for input in plain/m.toy plain inverted/m.toy inverted index; do
    run verify "$work/$input"
    run quantize "$work/$input" -o "$work/got.safetensors" --force --quiet \
      -e "$encoding"
    run diff "$work/want.safetensors" "$work/got.safetensors"
    [ "$input" = index ] ||
      cmp "$work/want.safetensors" "$work/got.safetensors" ||
      fail "$input is not read as its safetensors"
  done
done
run diff "$work/in.safetensors" "$work/inverted/m.toy"
run quantize "$work/inverted" -o "$work/folder" -e nf4
[ "$(ls "$work/folder")" = model.safetensors ] || fail "files of the folder"
refuse 1 "the size is wrong" verify "$work/truncated.toy"
refuse 6 "shards are merged" quantize "$work/index" -o "$work/shards" -e nf4
cp "$work/in.safetensors" "$work/plain/m.toy" "$work/both"
refuse 2 "holds 2 .safetensors, .toy files" verify "$work/both"

# ---- without it ----

cp "$work/formats.def" quant/formats/formats.def
rm quant/formats/toy.c tests/unit/toy_test.c
build nabla-quant
refuse 1 "" verify "$work/plain/m.toy"
refuse 2 "holds no .safetensors file" verify "$work/plain"
echo "a format was added with: quant/formats/formats.def quant/formats/toy.c" \
  "tests/unit/toy_test.c"

#!/bin/sh
# A compile option touches two files: its row in include/nabla/compile_options.def
# and its use. Shown with `cost`, the format in which a stage of the pipeline
# prints the cost of each function: a copy of the sources with these two files
# builds, its tools have the option, it has its effect and a key of its own in
# the object cache.
#
# A pass touches three: its row in transforms/passes.def, its file, and its
# FileCheck test. Shown in the same copy with nabla-stamp.
#
# A target touches its file and a row of transforms/ir/targets.def. Shown with
# one that has no kernels: nabla-dispatch asks it.
#
#   add_option.sh SOURCE CC CXX FILECHECK
# Quotes hold what patterns say; each `a && b || fail` has a `fail` that ends.
# shellcheck disable=SC2015,SC2016
set -eu
source=$1 cc=$2 cxx=$3 filecheck=$4
# shellcheck source=tests/install/tree.sh
. "$source/tests/install/tree.sh"
skip_without "$filecheck"
copy_tree add-option
cp -R "$work/tree" "$work/before"

# The two files of the option.
cat >>include/nabla/compile_options.def <<'END'
NABLA_OPTION_CHOICE(cost, "cost", "FORMAT", "text|json", "text",
  "How the cost of each function is printed.")
END
sed -i '/^STAGE(manifest,/a STAGE(cost, "nabla-cost{format=$cost}", ALWAYS)' \
  transforms/pipelines.def

# The three files of the pass.
cat >>transforms/passes.def <<'END'
PASS(stamp, "nabla-stamp", MODULE, "Names who was here")
OPTION(stamp, "name", "me", "who")
END
cat >transforms/ir/stamp.c <<'END'
/* nabla-stamp: names who was here. */
#include <mlir-c/BuiltinAttributes.h>

#include "transforms/passes.h"

MlirLogicalResult nabla_run_stamp(MlirOperation op,
                                  const nablaPassValue *values,
                                  void *prepared) {
  (void)prepared;
  mlirOperationSetAttributeByName(
      op, mlirStringRefCreateFromCString("nabla.stamp"),
      mlirStringAttrGet(mlirOperationGetContext(op),
                        mlirStringRefCreateFromCString(values[0].string)));
  return mlirLogicalResultSuccess();
}
END
cat >tests/filecheck/stamp.mlir <<'END'
// RUN: nabla-opt "%s" --nabla-stamp=name=them | FileCheck "%s"
// CHECK: module attributes {nabla.stamp = "them"}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nabla.add %x, %x : tensor<4xf32>, tensor<4xf32>
  return %y : tensor<4xf32>
}
END
program=tests/filecheck/stamp.mlir

# The file and the row of the target.
sed -i '/^TARGET(portable,/i TARGET(bare, "bare", "machines without kernels")' \
  transforms/ir/targets.def
cat >transforms/target/bare.c <<'END'
/* Machines without kernels. */
#include "transforms/ir/target.h"

static nabla_features features(const char *text) {
  (void)text;
  return 0;
}

static const char *objection(const nabla_fused_spec *spec) {
  (void)spec;
  return "bare machines have no kernels";
}

const nabla_target nabla_target_bare = {
    .name = "bare", .features = features, .objection = objection};
END
diff -rq ../before . |
  sed 's/^Files [^ ]* and //; s/ differ$//; s/^Only in //; s/: /\//' |
  sort >"$work/touched"
printf '%s\n' ./include/nabla/compile_options.def \
  ./tests/filecheck/stamp.mlir ./transforms/ir/stamp.c \
  ./transforms/passes.def ./transforms/pipelines.def \
  ./transforms/target/bare.c ./transforms/ir/targets.def | sort |
  diff - "$work/touched" ||
  fail "other files were touched"

{
  cmake -S . -B "$work/build" -G Ninja -DCMAKE_C_COMPILER="$cc" \
    -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Release -DNABLA_TESTS=OFF \
    -DCMAKE_C_FLAGS_RELEASE=-O0 -DCMAKE_CXX_FLAGS_RELEASE=-O0 \
    -DNABLA_COMPILER=ON
  cmake --build "$work/build" --target nabla-run nabla-compile nabla-opt \
    nabla-pages
} >"$work/log" 2>&1 || fail "the sources with a new compile option do not build"
bin=$work/build/bin
pages=$(find "$work/build" -name nabla-pages -type f -perm -u+x | head -n 1)

echo "-- the option is in help, pages and pipeline"
for tool in nabla-run nabla-compile; do
  "$bin/$tool" --help | grep -q -e '--cost FORMAT' || fail "$tool --help"
done
"$pages" --options | grep -q -e '^| `--cost FORMAT` | `cost` |' ||
  fail "nabla-pages --options"
"$pages" --passes | grep -q '^| cost | `nabla-cost{format=text}` |' ||
  fail "nabla-pages --passes"
"$bin/nabla-opt" --help >"$work/help"
grep -q '^ *cost  *nabla-cost{format=text}' "$work/help" ||
  fail "nabla-opt --help"
status=0
"$bin/nabla-compile" "$program" --cost csv -o "$work/out.o" 2>"$work/log" ||
  status=$?
[ $status = 2 ] && grep -q 'text, json' "$work/log" ||
  fail "a value that is none: $status"

echo "-- it has its effect, and a key of its own"
run() {
  "$bin/nabla-run" "$program" --cache "$work/cache" -i arg0=random:4 "$@" \
    2>"$work/log"
}
run && grep -q '^@f$' "$work/log" || fail "the default"
run --cost text && ! grep -q nabla.add "$work/log" ||
  fail "the default is not found in the cache"
run --cost json && grep -q '^{"function":"f",' "$work/log" ||
  fail "another value has the key of the default"
run --cost json && ! grep -q nabla.add "$work/log" ||
  fail "another value is not found in the cache"

echo "-- the pass"
"$bin/nabla-opt" "$program" --nabla-stamp=name=them |
  "$filecheck" "$program" || fail "nabla-stamp"
grep -q -e '--nabla-stamp' "$work/help" || fail "nabla-opt --help: the pass"
"$pages" --passes | grep -q '^## `--nabla-stamp`' || fail "nabla-pages: the pass"

echo "-- the target is asked"
product=tests/filecheck/dispatch-policy.mlir
"$bin/nabla-opt" "$product" --nabla-dispatch=policy=error >"$work/log" 2>&1 ||
  fail "a product with a packed weight"
status=0
"$bin/nabla-opt" "$product" --nabla-dispatch='policy=error target=bare' \
  >"$work/log" 2>&1 || status=$?
[ $status = 1 ] && grep -q 'bare machines have no kernels' "$work/log" ||
  fail "a target without kernels: $status"

# And without them the copy is what it was.
for file in include/nabla/compile_options.def transforms/pipelines.def \
  transforms/passes.def transforms/ir/targets.def; do
  cp "../before/$file" "$file"
done
rm transforms/target/bare.c transforms/ir/stamp.c tests/filecheck/stamp.mlir
diff -r ../before . || fail "something was left"
echo "a compile option was added with: include/nabla/compile_options.def" \
  "transforms/pipelines.def"
echo "a pass was added with: transforms/passes.def transforms/ir/stamp.c" \
  "tests/filecheck/stamp.mlir"
echo "a target was added with: transforms/ir/targets.def" \
  "transforms/target/bare.c"

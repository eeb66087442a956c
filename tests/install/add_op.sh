#!/bin/sh
# Adding an operation touches seven files: its def, its row of ops.def, its
# formula, that of its derivative, a FileCheck case, an execution case and one of
# its gradient. Adding a dispatch rule touches
# two: its row of rules.def and its function. Shown in a copy of the sources with
# `nabla.cube` and a rule for nabla.abs of an identity: the copy builds, the
# operation's results are compared with numbers, dense and packed, the rule
# fires, the tests of the tables pass, and git counts the files.
#
#   add_op.sh SOURCE CC CXX PYTHON
set -eu
source=$1 cc=$2 cxx=$3 python=$4 jobs=$(nproc)
# shellcheck source=tests/install/tree.sh
. "$source/tests/install/tree.sh"
skip_without_modules "$python" numpy
skip_without git
copy_tree add-op

keep() {
  git add -A
  git -c user.name=test -c user.email=test@localhost commit -q -m "$1"
}

# insert FILE PATTERN: standard input before the first line that matches
insert() {
  line=$(grep -n -m 1 -e "$2" "$1" | cut -d: -f1)
  {
    head -n $((line - 1)) "$1"
    cat
    tail -n +"$line" "$1"
  } >"$work/new"
  cat "$work/new" >"$1"
}

# count FILES WHAT: at most so many files differ from the last commit
count() {
  git add -A
  git diff --cached --name-only >"$work/log"
  echo "$2 was added with: $(tr '\n' ' ' <"$work/log")"
  [ "$(wc -l <"$work/log")" -le "$1" ] || fail "more than $1 files"
  keep "$2"
}

build() {
  cmake --build "$work/build" --parallel "$jobs" --target nabla-opt \
    --target nabla-run --target passes_ops --target passes_rules \
    >"$work/log" 2>&1 ||
    fail "the sources with $1 do not build"
}

git init -q .
keep before

# ---- the operation, in seven files ----

insert dialect/NablaMath.td '^def Nabla_ExpOp' <<'TEXT'
def Nabla_CubeOp : Nabla_MathOp<"cube", "x to the power of 3">;
TEXT
insert dialect/ops.def '^OP(exp,' <<'TEXT'
OP(cube, INFER(unary) TYPES(float) LOWER(formula) IMPLICIT(rules) COST(one)
   DIFF(formula) BATCH(elementwise) SHARD(elementwise))
TEXT
insert transforms/formula/formulas.def '^FORMULA(expm1,' <<'TEXT'
FORMULA(cube, "x", "x * x * x")
TEXT
insert transforms/autodiff/partials.def '^PARTIAL(exp,' <<'TEXT'
PARTIAL(cube,     0, "3 * a * a")
TEXT
cat >>tests/filecheck/ops-math.mlir <<'TEXT'

// CHECK-LABEL: func.func @cube
// LOWER-LABEL: func.func @cube
// LOWER-NOT: nabla.{{[a-z]}}
func.func @cube(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK: nabla.cube %{{.*}} : tensor<?x8xf32>
  %0 = nabla.cube %x : tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
TEXT
insert tests/execution/math_ops.py '^    "exp": ' <<'TEXT'
    "cube": (lambda x: x * x * x, 2, "monotone"),
TEXT
insert tests/execution/gradient_cases.py '^    "exp": ' <<'TEXT'
    "cube": (-2, 2),
TEXT
count 7 "an operation"

cmake -S . -B "$work/build" -DCMAKE_C_COMPILER="$cc" \
  -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_C_FLAGS_DEBUG=-O0 -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
  -DNABLA_TEST_PYTHON="$python" >"$work/log" 2>&1 || fail "CMake"
build "a new operation"
bin=$work/build/bin
"$python" - "$work" <<'TEXT'
import sys
import numpy as np
np.save(sys.argv[1] + "/x.npy", np.array([-3, 0.5, 2], "f"))
np.save(sys.argv[1] + "/y.npy", np.array([-27, 0.125, 8], "f"))
TEXT
cat >"$work/cube.mlir" <<'TEXT'
func.func @cube(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = nabla.cube %x : tensor<3xf32>
  return %y : tensor<3xf32>
}
TEXT
"$bin/nabla-run" "$work/cube.mlir" -i 0="$work/x.npy" --expect "$work/y.npy" \
  >"$work/log" 2>&1 || fail "nabla.cube is not x * x * x"
"$bin/nabla-opt" tests/filecheck/ops-math.mlir >/dev/null 2>"$work/log" ||
  fail "the FileCheck case is not read"
"$work/build/tests/compiler/passes_ops" >"$work/list"
diff tests/compiler/passes_ops.txt "$work/list" >"$work/log" ||
  fail "passes.ops: the row is not complete"

# The cases that the row of math_ops.py makes: dense and packed arrays; and a
# plan for random programs.
"$python" -B - "$bin/nabla-run" >"$work/log" 2>&1 <<'TEXT' || fail "its cases"
import sys
sys.path.insert(0, "tests/execution")
import harness
import implicit_math
import math_ops
import programs_ops


def test(s):
    rng = harness.np.random.default_rng(1)
    dense = [f for f in math_ops.cases(rng, 1) if "nabla.cube" in f.text()]
    packed = [f for f in implicit_math.cases(rng, 1) if "nabla.cube" in f.text()]
    s.expect(len(dense) == 4, "%d dense cases of nabla.cube" % len(dense))
    s.expect(len(packed) > 0, "no case of nabla.cube of a packed array")
    s.expect("cube" in programs_ops.PLANS, "no plan of nabla.cube")
    s.run_all(dense + packed, ["--policy", "off"])


harness.session(sys.argv[1], test)
TEXT

# ---- a rule, in two files ----

cat >"$work/abs.mlir" <<'TEXT'
!eye = !nabla.implicit<2x2xf32, #nabla.identity>
func.func @abs(%x: !eye) -> tensor<2x2xf32> {
  %y = nabla.abs %x : !eye
  return %y : tensor<2x2xf32>
}
TEXT
"$bin/nabla-opt" "$work/abs.mlir" --nabla-dispatch=policy=off >"$work/log" 2>&1
grep -q 'nabla\.abs' "$work/log" || fail "a rule takes nabla.abs before"
cat >>dialect/rules.def <<'TEXT'
RULE(abs_identity, "nabla.abs", IDENTITY, NONE, 0, "an identity has no negative elements")
TEXT
cat >>transforms/dispatch/rules_identity.c <<'TEXT'

nabla_rule_outcome nabla_apply_abs_identity(MlirOperation op, const char **why);
nabla_rule_outcome nabla_apply_abs_identity(MlirOperation op,
                                            const char **why) {
  (void)why;
  MlirValue value = mlirOperationGetOperand(op, 0);
  nabla_op_spec spec = {"nabla.materialize", 1, &value, -1, NULL, 0, NULL};
  value = mlirOperationGetResult(nabla_op_create(op, &spec), 0);
  nabla_op_replace(op, &value);
  return NABLA_RULE_APPLIED;
}
TEXT
count 2 "a rule"
build "a new rule"
"$bin/nabla-opt" "$work/abs.mlir" --nabla-dispatch=policy=off >"$work/log" 2>&1
if grep -q 'nabla\.abs' "$work/log"; then fail "the rule does not fire"; fi
"$work/build/tests/compiler/passes_rules" >"$work/log" 2>&1 ||
  fail "passes.rules"

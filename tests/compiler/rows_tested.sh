#!/bin/sh
# Each row of the tables of folds has a case in its FileCheck test.
#   rows_tested.sh SOURCE_FOLDER
set -eu
cd "$1"
missing=0

# expect PATTERN FILE WHAT
expect() {
  grep -q -- "$1" "tests/filecheck/$2" && return
  echo "no case for $3 in tests/filecheck/$2"
  missing=1
}

rows=$(sed -n 's/^IDENTITY(\([a-z_]*\),.*/\1/p' transforms/simplify/identities.def)
for id in $rows; do
  expect "^func.func @$id(" simplify-identities.mlir "$id"
done
rows=$(sed -n 's/^[A-Z12]*(\([a-z_]*\), .*/\1/p' transforms/simplify/splats.def)
for op in $rows; do
  expect " nabla\.$op " simplify-splats.mlir "$op"
done
test "$(grep -c '^IDENTITY(' transforms/simplify/identities.def)" -gt 20
test "$(grep -c '^SPLAT(' transforms/simplify/splats.def)" -gt 10
exit $missing

// Which rule took what, and what was missed, as MLIR's optimization remarks.
// RUN: nabla-opt "%s" --nabla-dispatch=policy=off --nabla-fuse --remarks-filter='nabla.*' -o "%t.mlir" 2>&1 | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-dispatch=policy=off --nabla-fuse --remarks-filter-missed='nabla.*' -o "%t.mlir" 2>&1 | FileCheck "%s" --check-prefix=MISSED
// RUN: nabla-opt "%s" --nabla-dispatch=policy=off --nabla-fuse -o "%t.mlir" 2>&1 | count 0
// RUN: nabla-opt "%s" --nabla-dispatch=policy=off --nabla-fuse --remarks-filter='nabla.*' --remark-format=yaml --remarks-output-file="%t.yaml" -o "%t.mlir"
// RUN: FileCheck "%s" --check-prefix=YAML --input-file="%t.yaml"

// CHECK-DAG: remark: [Passed] dot_packed_rhs | Category:nabla-dispatch | {{.*}}x . w becomes fused_dot, which decodes w while it multiplies
// CHECK-DAG: remark: [Passed] Fused | Category:nabla-fuse | {{.*}}relu
// CHECK-DAG: remark: [Missed] Materialized | Category:nabla-dispatch | {{.*}}no rule takes it

// MISSED-NOT: Passed
// MISSED: remark: [Missed] Materialized
// MISSED-NOT: Passed

// YAML-DAG: --- !Passed{{[[:space:]]+}}Pass:{{ +}}nabla-dispatch{{[[:space:]]+}}Name:{{ +}}dot_packed_rhs
// YAML-DAG: --- !Missed{{[[:space:]]+}}Pass:{{ +}}nabla-dispatch{{[[:space:]]+}}Name:{{ +}}Materialized
// YAML-DAG: --- !Passed{{[[:space:]]+}}Pass:{{ +}}nabla-fuse{{[[:space:]]+}}Name:{{ +}}Fused
func.func @linear(%x: tensor<?x64xf32>, %w: !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>) -> (tensor<?x8xf32>, tensor<8xf32>) {
  %0 = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x64xf32>, !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
  %1 = nabla.relu %0 : tensor<?x8xf32>
  %2 = nabla.reduce sum %w dims = [1] : !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
  return %1, %2 : tensor<?x8xf32>, tensor<8xf32>
}

// A select of packed values, which upstream makes of scf.if, is one of their
// components; so is a branch that was lifted again.
// RUN: nabla-opt "%s" --canonicalize --nabla-lower-implicit | FileCheck "%s"
// RUN: nabla-opt "%s" --convert-scf-to-cf --lift-cf-to-scf --nabla-lower-implicit | FileCheck "%s"

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>

// CHECK-LABEL: func.func @choose
// CHECK-SAME: (%[[A:[^:]*]]: tensor<{{[^>]*}}xi8>{{.*}}, %[[S:[^:]*]]: tensor<8xf32>{{.*}}, %[[B:[^:]*]]: tensor<{{[^>]*}}xi8>{{.*}}, %[[T:[^:]*]]: tensor<8xf32>{{.*}}, %[[P:[^:]*]]: i1)
// CHECK-NOT: arith.select
// CHECK: %[[R:.*]]:2 = scf.if %[[P]] -> (tensor<{{.*}}xi8>, tensor<8xf32>) {
// CHECK-NEXT: scf.yield %[[A]], %[[S]]
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %[[B]], %[[T]]
// CHECK: nabla.pack %[[R]]#0, %[[R]]#1
func.func @choose(%a: !w, %b: !w, %p: i1) -> tensor<8x64xf32> {
  %w = scf.if %p -> !w {
    scf.yield %a : !w
  } else {
    scf.yield %b : !w
  }
  %d = nabla.materialize %w : !w
  return %d : tensor<8x64xf32>
}

// RUN: nabla-opt "%s" --nabla-vjp=function=slices | FileCheck "%s"

// Slices that are no whole blocks reach the steps decoded, in both directions.
!s = !nabla.implicit<16x3xf32, #nabla.fp8_e5m2<block = 32>>
// CHECK-LABEL: func.func @slices.vjp(
// CHECK: nabla.scan
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<3xf32>, %{{.*}}: tensor<3xf32>):
// CHECK: nabla.scan {{.*}} reverse
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<3xf32>, %{{.*}}: tensor<3xf32>, %{{.*}}: tensor<3xf32>):
func.func @slices(%h: tensor<3xf32>, %w: !s) -> tensor<3xf32> {
  %0 = nabla.scan init(%h : tensor<3xf32>) over(%w : !s) -> tensor<3xf32> {
  ^bb0(%a: tensor<3xf32>, %x: tensor<3xf32>):
    %1 = nabla.mul %a, %x : tensor<3xf32>, tensor<3xf32>
    nabla.yield %1 : tensor<3xf32>
  }
  return %0 : tensor<3xf32>
}

// What upstream passes may do with the operations of NablaMath.td: all are
// pure, but a division of integers stays where it is, since it may fail.
// RUN: nabla-opt "%s" --loop-invariant-code-motion --cse | FileCheck "%s"

// CHECK-LABEL: func.func @loop
func.func @loop(%x: tensor<4xf32>, %i: tensor<4xi32>, %n: index) -> (tensor<4xf32>, tensor<4xi32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  // CHECK: nabla.exp
  // CHECK-NEXT: nabla.div {{.*}} : tensor<4xf32>
  // CHECK: scf.for
  // CHECK: nabla.div {{.*}} : tensor<4xi32>
  // CHECK: nabla.mod {{.*}} : tensor<4xi32>
  %r:2 = scf.for %k = %zero to %n step %one iter_args(%a = %x, %b = %i) -> (tensor<4xf32>, tensor<4xi32>) {
    %0 = nabla.exp %x : tensor<4xf32>
    %1 = nabla.div %0, %x : tensor<4xf32>, tensor<4xf32>
    %2 = nabla.div %i, %i : tensor<4xi32>, tensor<4xi32>
    %3 = nabla.mod %2, %i : tensor<4xi32>, tensor<4xi32>
    scf.yield %1, %3 : tensor<4xf32>, tensor<4xi32>
  }
  // CHECK: nabla.exp
  // CHECK-NOT: nabla.exp
  %2 = nabla.exp %r#0 : tensor<4xf32>
  %3 = nabla.exp %r#0 : tensor<4xf32>
  %4 = nabla.add %2, %3 : tensor<4xf32>, tensor<4xf32>
  return %4, %r#1 : tensor<4xf32>, tensor<4xi32>
}

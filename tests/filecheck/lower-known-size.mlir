// An array of unknown size beside one of known size: what makes the first keeps
// its own size until both are compared, and is cut behind the comparison.
// RUN: nabla-opt --nabla-to-linalg --canonicalize "%s" | FileCheck "%s"

// CHECK-LABEL: func.func @one_is_known
// CHECK: linalg.generic {{.*}}ins(%arg0 : tensor<?x8xf64>)
// CHECK: } -> tensor<?x8xf64>
// CHECK: call @nabla_require_equal
// CHECK: tensor.extract_slice {{.*}}[0, 0] [4, 8] [1, 1] : tensor<?x8xf64> to tensor<4x8xf64>
// CHECK: linalg.generic
func.func @one_is_known(%x: tensor<?x8xf64>, %m: tensor<4x8xf64>) -> tensor<4x8xf64> {
  %n = nabla.neg %x : tensor<?x8xf64>
  %r = nabla.add %m, %n : tensor<4x8xf64>, tensor<?x8xf64>
  return %r : tensor<4x8xf64>
}

// Both known or both unknown: nothing is cut.
// CHECK-LABEL: func.func @alike
// CHECK-NOT: tensor.extract_slice
func.func @alike(%x: tensor<?x8xf64>, %y: tensor<?x8xf64>, %m: tensor<4x8xf64>)
    -> (tensor<?x8xf64>, tensor<4x8xf64>) {
  %r = nabla.add %x, %y : tensor<?x8xf64>, tensor<?x8xf64>
  %s = nabla.add %m, %m : tensor<4x8xf64>, tensor<4x8xf64>
  return %r, %s : tensor<?x8xf64>, tensor<4x8xf64>
}

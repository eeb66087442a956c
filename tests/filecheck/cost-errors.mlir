// What nabla-cost refuses; counts do not pass 2^64 - 1.
// RUN: not nabla-opt "%s" --split-input-file --nabla-cost -o /dev/null 2>&1 | FileCheck "%s"

// CHECK: closes a circle of calls
func.func private @again(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = func.call @again(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// CHECK: nabla.neg 1 18446744073709551615 18446744073709551615 18446744073709551615
// CHECK: total 1 18446744073709551615 18446744073709551615 18446744073709551615
func.func @large(%x: tensor<4294967296x4294967296x2xf32>) {
  %y = nabla.neg %x : tensor<4294967296x4294967296x2xf32>
  return
}

// Attributes of calls that are not those of the passes.
// RUN: nabla-opt "%s" --split-input-file --nabla-calls --nabla-to-linalg --verify-diagnostics

func.func @no_argument(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has nabla.in_place, which is the number of an argument with the type of its one result}}
  %y = nabla.custom_call @nabla.wait(%x) {nabla.in_place = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----
func.func @other_type(%x: tensor<4xf32>, %z: tensor<8xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has nabla.in_place, which is the number of an argument with the type of its one result}}
  %y = nabla.custom_call @nabla.wait(%x, %z) {nabla.in_place = 1 : i64} : (tensor<4xf32>, tensor<8xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----
func.func @negative(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has nabla.in_place, which is the number of an argument with the type of its one result}}
  %y = nabla.custom_call @nabla.wait(%x) {nabla.in_place = -7 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

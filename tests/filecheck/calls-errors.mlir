// Custom calls that do not verify, or do not fit their handler.
// RUN: nabla-opt "%s" --nabla-calls --split-input-file --verify-diagnostics

func.func @unknown(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{custom call 'nabla.chek_finite' has no handler for cpu in this process: did you mean 'nabla.check_finite'?}}
  %y = nabla.custom_call @nabla.chek_finite(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
func.func @far(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{custom call 'zzzzzzzzzz' has no handler for cpu in this process: add one with nabla_add_call_handler}}
  %y = nabla.custom_call @zzzzzzzzzz(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
func.func @arguments(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{custom call 'nabla.check_finite' takes 1 arguments, not 2}}
  %y = nabla.custom_call @nabla.check_finite(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
func.func @results(%x: tensor<4xf32>) {
  // expected-error @+1 {{custom call 'nabla.check_finite' gives 1 results, not 0}}
  nabla.custom_call @nabla.check_finite(%x) : (tensor<4xf32>) -> ()
  return
}
// -----
func.func @dtype(%x: tensor<4xi32>) -> tensor<4xf32> {
  // expected-error @+1 {{custom call 'nabla.check_finite': argument 0 ('x') is F16 or BF16 or F32 or F64, not I32}}
  %y = nabla.custom_call @nabla.check_finite(%x) : (tensor<4xi32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
func.func @result_dtype(%x: tensor<4xf32>) -> tensor<4xi8> {
  // expected-error @+1 {{custom call 'nabla.check_finite': result 0 ('y') is F16 or BF16 or F32 or F64, not I8}}
  %y = nabla.custom_call @nabla.check_finite(%x) : (tensor<4xf32>) -> tensor<4xi8>
  return %y : tensor<4xi8>
}
// -----
func.func @attribute(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{custom call 'nabla.check_finite' has no attribute 'lable'}}
  %y = nabla.custom_call @nabla.check_finite(%x) {lable = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
func.func @kind(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{custom call 'nabla.check_finite': attribute 'label' is a string, not an integer}}
  %y = nabla.custom_call @nabla.check_finite(%x) {label = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
func.func @no_setting(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{has attributes of which one is no bool, integer, float, string, array or dictionary}}
  %y = nabla.custom_call @nabla.check_finite(%x) {label = affine_map<(n) -> (n)>} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
func.func @pure(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{is pure, and its handler does not say that it is}}
  %y = nabla.custom_call @nabla.check_finite(%x) pure : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
func.func @sizes(%x: tensor<4xf32>) -> tensor<?xf32> {
  // expected-error @+1 {{the results have 1 dynamic dimensions, and 0 operands are of type index: give one for each}}
  %y = nabla.custom_call @nabla.check_finite(%x) : (tensor<4xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}
// -----
func.func @order(%x: tensor<4xf32>, %n: index) -> tensor<?xf32> {
  // expected-error @+1 {{operands of type index stand behind the arrays}}
  %y = nabla.custom_call @nabla.check_finite(%n, %x) : (index, tensor<4xf32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
}
// -----
func.func @parts(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{parts count 2 arrays, there are 1}}
  %y = nabla.custom_call @nabla.check_finite(%x) parts = [2] : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
func.func @many_parts(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{parts are from 0 to}}
  %y = nabla.custom_call @nabla.check_finite(%x) parts = [-1] : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

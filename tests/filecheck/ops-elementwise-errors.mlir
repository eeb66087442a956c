// What relu, silu, add, mul, reduce, constant refuse.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

func.func @f(%a: tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>) {
  // expected-error @+1 {{'nabla.relu' op arrays have at most 16 dimensions}}
  %0 = nabla.relu %a : tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>
  return
}

// -----

func.func @f(%a: tensor<*xf32>) {
  // expected-error @+1 {{'nabla.relu' op operand #0 must be a ranked tensor or an implicit array}}
  %0 = nabla.relu %a : tensor<*xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xi8>) {
  // expected-error @+1 {{'nabla.relu' op takes elements of types f64 f32 f16 bf16; nabla.convert makes them}}
  %0 = nabla.relu %a : tensor<2x3xi8>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{'nabla.add' op operands have one shape, not 2x3 and 3; nabla.broadcast_in_dim repeats along dimensions}}
  %0 = nabla.add %a, %b : tensor<2x3xf32>, tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xi16>) {
  // expected-error @+1 {{'nabla.add' op takes elements of types f64 f32 f16 bf16 i64 i32 i8 ui8 i1; nabla.convert makes them}}
  %0 = nabla.add %a, %a : tensor<2x3xi16>, tensor<2x3xi16>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<2x3xf16>) {
  // expected-error @+1 {{'nabla.mul' op operands have the same element type}}
  %0 = nabla.mul %a, %b : tensor<2x3xf32>, tensor<2x3xf16>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>) {
  // expected-error @+1 {{'nabla.mul' op operands have one shape, not 2x3 and 2x4; nabla.broadcast_in_dim repeats along dimensions}}
  %0 = nabla.mul %a, %b : tensor<2x3xf32>, tensor<2x4xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.reduce' op dims are distinct and less than the rank, 2}}
  %0 = nabla.reduce sum %a dims = [2] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.reduce' op dims are distinct and less than the rank, 2}}
  %0 = nabla.reduce sum %a dims = [1, 1] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{custom op 'nabla.reduce' expected string or keyword containing one of the following enum values for attribute 'kind' [sum, max, prod, min, mean, any, all]}}
  %0 = nabla.reduce median %a dims = [1] : tensor<2x3xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'nabla.constant' op attribute 'value' failed to satisfy constraint: constant vector/tensor attribute}}
  %0 = "nabla.constant"() {value = 3 : i32} : () -> tensor<i32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'nabla.constant' op value must be of a ranked tensor type}}
  %0 = nabla.constant dense<1> : vector<4xi32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'nabla.constant' op result #0 must be tensor of f64 f32 f16 bf16 i64 i32 i8 ui8 or i1, but got 'tensor<4xi16>'}}
  %0 = nabla.constant dense<1> : tensor<4xi16>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'nabla.constant' op arrays have at most 16 dimensions}}
  %0 = nabla.constant dense<1.0> : tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>
  return
}

// What the operations of NablaMath.td refuse.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

func.func @f(%a: tensor<3xi8>) {
  // expected-error @+1 {{'nabla.exp' op takes elements of types f64 f32 f16 bf16; nabla.convert makes them}}
  %0 = nabla.exp %a : tensor<3xi8>
  return
}

// -----

func.func @f(%a: tensor<3xui8>) {
  // expected-error @+1 {{'nabla.neg' op takes elements of types f64 f32 f16 bf16 i64 i32 i8; nabla.convert makes them}}
  %0 = nabla.neg %a : tensor<3xui8>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // expected-error @+1 {{'nabla.not' op takes elements of types i64 i32 i8 ui8 i1; nabla.convert makes them}}
  %0 = nabla.not %a : tensor<3xf32>
  return
}

// -----

func.func @f(%a: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) {
  // expected-error @+1 {{'nabla.and' op takes elements of types i64 i32 i8 ui8 i1; nabla.convert makes them}}
  %0 = nabla.and %a, %a : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>, !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%a: tensor<3xi1>) {
  // expected-error @+1 {{'nabla.sub' op takes elements of types f64 f32 f16 bf16 i64 i32 i8 ui8; nabla.convert makes them}}
  %0 = nabla.sub %a, %a : tensor<3xi1>, tensor<3xi1>
  return
}

// -----

func.func @f(%a: tensor<3xf32>, %b: tensor<4xf32>) {
  // expected-error @+1 {{'nabla.div' op operands have one shape, not 3 and 4; nabla.broadcast_in_dim repeats along dimensions}}
  %0 = nabla.div %a, %b : tensor<3xf32>, tensor<4xf32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>, %b: tensor<3x?xf32>) {
  // expected-error @+1 {{'nabla.compare' op operands have one shape, not 3 and 3x?; nabla.broadcast_in_dim repeats along dimensions}}
  %0 = nabla.compare eq %a, %b : tensor<3xf32>, tensor<3x?xf32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>, %b: tensor<3xf16>) {
  // expected-error @+1 {{'nabla.compare' op operands have the same element type}}
  %0 = nabla.compare eq %a, %b : tensor<3xf32>, tensor<3xf16>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // expected-error @+1 {{custom op 'nabla.compare' expected string or keyword containing one of the following enum values for attribute 'kind' [eq, ne, lt, le, gt, ge]}}
  %0 = nabla.compare is %a, %a : tensor<3xf32>, tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // expected-error @+1 {{'nabla.select' op takes elements of types i1; nabla.convert makes them}}
  %0 = nabla.select %a, %a, %a : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  return
}

// -----

func.func @f(%c: tensor<3xi1>, %a: tensor<3xf32>, %b: tensor<3xf16>) {
  // expected-error @+1 {{'nabla.select' op operands have the same element type}}
  %0 = nabla.select %c, %a, %b : tensor<3xi1>, tensor<3xf32>, tensor<3xf16>
  return
}

// -----

func.func @f(%c: tensor<i1>, %a: tensor<3xf32>) {
  // expected-error @+1 {{'nabla.select' op operands have one shape, not a scalar and 3; nabla.broadcast_in_dim repeats along dimensions}}
  %0 = nabla.select %c, %a, %a : tensor<i1>, tensor<3xf32>, tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // expected-error @+1 {{'nabla.convert' op the result has the shape of the operand}}
  %0 = nabla.convert %a : tensor<3xf32> -> tensor<?xi8>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'nabla.full' op value is of the element type of the result}}
  %0 = nabla.full 1.0 : f32 -> tensor<3xf16>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'nabla.full' op value is of the element type of the result}}
  %0 = nabla.full "1" -> tensor<3xf16>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'nabla.full' op the result has 1 dynamic dimensions, sizes has 0}}
  %0 = nabla.full 1.0 : f32 -> tensor<3x?xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'nabla.iota' op dim is less than the rank, 1}}
  %0 = nabla.iota dim = 1 -> tensor<3xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'nabla.iota' op takes elements of types f64 f32 f16 bf16 i64 i32 i8 ui8; nabla.convert makes them}}
  %0 = nabla.iota dim = 0 -> tensor<3xi1>
  return
}

// -----

func.func @f(%n: index) {
  // expected-error @+1 {{'nabla.iota' op the result has 0 dynamic dimensions, sizes has 1}}
  %0 = nabla.iota dim = 0 sizes(%n) -> tensor<3xi8>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'nabla.tri' op the result has at least 2 dimensions}}
  %0 = nabla.tri -> tensor<3xi8>
  return
}

// -----

func.func @f() {
  // expected-error @+1 {{'nabla.tri' op arrays have at most 16 dimensions}}
  %0 = nabla.tri -> tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xi8>
  return
}

// -----

func.func @f(%s: tensor<1xi64>) {
  // expected-error @+1 {{'nabla.uniform' op the first dimensions of the result are those of the seeds; one seed is a tensor<i64>}}
  %0 = nabla.uniform %s : tensor<1xi64> -> tensor<3xf32>
  return
}

// -----

func.func @f(%s: tensor<i32>) {
  // expected-error @+1 {{'nabla.uniform' op operand #0 must be seed of 64-bit signless integer values, but got 'tensor<i32>'}}
  %0 = nabla.uniform %s : tensor<i32> -> tensor<3xf32>
  return
}

// -----

func.func @f(%s: tensor<i64>) {
  // expected-error @+1 {{'nabla.normal' op the result is of floats}}
  %0 = nabla.normal %s : tensor<i64> -> tensor<3xi8>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // expected-error @+1 {{'nabla.argmax' op dim is less than the rank, 1}}
  %0 = nabla.argmax %a dim = 1 : tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<3x0xf32>) {
  // expected-error @+1 {{'nabla.argmin' op dimension 1 has no elements to choose from}}
  %0 = nabla.argmin %a dim = 1 : tensor<3x0xf32>
  return
}

// -----

func.func @f(%a: tensor<f32>) {
  // expected-error @+1 {{'nabla.softmax' op dim is less than the rank, 0}}
  %0 = nabla.softmax %a dim = 0 : tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>) {
  // expected-error @+1 {{'nabla.logsumexp' op dim is less than the rank, 1}}
  %0 = nabla.logsumexp %a dim = -1 : tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<3xi1>) {
  // expected-error @+1 {{'nabla.cumsum' op takes elements of types f64 f32 f16 bf16 i64 i32 i8 ui8; nabla.convert makes them}}
  %0 = nabla.cumsum %a dim = 0 : tensor<3xi1>
  return
}

// -----

func.func @f(%a: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.reduce' op mean is of floats; nabla.convert makes them}}
  %0 = nabla.reduce mean %a dims = [0] : tensor<3xi32>
  return
}

// -----

func.func @f(%a: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.reduce' op any and all are of i1; nabla.compare makes it}}
  %0 = nabla.reduce any %a dims = [0] : tensor<3xi32>
  return
}

// -----

func.func @f(%s: tensor<i64>) {
  // expected-error @+1 {{'nabla.uniform' op result #0 must be tensor of f64 f32 f16 bf16 i64 i32 i8 ui8 or i1, but got 'tensor<3xf80>'}}
  %0 = nabla.uniform %s : tensor<i64> -> tensor<3xf80>
  return
}

// -----

func.func @f(%a: tensor<4xf32>) {
  // expected-error @+1 {{'nabla.convert' op result #0 must be tensor of f64 f32 f16 bf16 i64 i32 i8 ui8 or i1, or implicit array, but got 'tensor<4xf8E4M3FN>'}}
  %0 = nabla.convert %a : tensor<4xf32> -> tensor<4xf8E4M3FN>
  return
}

// -----

func.func @f(%a: tensor<4x8xf32>) {
  // expected-error @+1 {{'nabla.convert' op an implicit result needs an implicit operand; nabla.quantize makes one}}
  %0 = nabla.convert %a : tensor<4x8xf32> -> !nabla.implicit<4x8xf16, #nabla.nf4<block = 64>>
  return
}

// -----

func.func @f(%a: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>) {
  // expected-error @+1 {{'nabla.convert' op an implicit result differs from the operand in the element type alone}}
  %0 = nabla.convert %a : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>> -> !nabla.implicit<4x8xf16, #nabla.nf4<block = 32>>
  return
}

// -----

func.func @f(%a: !nabla.implicit<4x8xf32, #nabla.identity>) {
  // expected-error @+1 {{'nabla.broadcast_in_dim' op no strides express this of an identity: write the tensor type as result, it is materialized}}
  %0 = nabla.broadcast_in_dim %a dims = [0, 1] : !nabla.implicit<4x8xf32, #nabla.identity> -> !nabla.implicit<4x8xf32, #nabla.identity>
  return
}

// -----

func.func @f(%a: !nabla.implicit<4x4xf32, #nabla.identity>) {
  // expected-error @+1 {{'nabla.reshape' op no strides express this reshape of the operand: write the tensor type as result, it is materialized}}
  %0 = nabla.reshape %a : !nabla.implicit<4x4xf32, #nabla.identity> -> !nabla.implicit<2x8xf32, #nabla.identity>
  return
}

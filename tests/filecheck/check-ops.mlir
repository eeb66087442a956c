// Operations that cannot be compiled are refused where they stand, with the way
// to say the same; what can be, and what is folded or removed, is not.
// RUN: split-file "%s" "%t"
// RUN: nabla-opt "%t/errors.mlir" --split-input-file --nabla-check-ops --verify-diagnostics -o "%t/out"
// RUN: nabla-opt "%t/keeps.mlir" --nabla-check-ops | FileCheck "%s"
// RUN: nabla-opt "%t/folds.mlir" --nabla-cpu | FileCheck "%s" --check-prefix=FOLDS
// RUN: not nabla-opt "%t/pipeline.mlir" --nabla-cpu -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=PIPELINE
// RUN: not nabla-opt "%t/left.mlir" --nabla-cpu -o "%t/out" 2>&1 | FileCheck "%s" --check-prefix=LEFT

//--- errors.mlir
func.func @libm(%a: tensor<4xf32>, %x: f32) -> tensor<4xf32> {
  // expected-error @+1 {{'math.exp' op cannot be compiled: use nabla.exp of the whole tensor}}
  %0 = math.exp %a : tensor<4xf32>
  // expected-error @+1 {{'math.sin' op cannot be compiled: use nabla.sin of the whole tensor}}
  %1 = math.sin %x : f32
  // expected-error @+1 {{'math.isinf' op cannot be compiled: use nabla.is_inf}}
  %2 = math.isinf %x : f32
  // expected-error @+1 {{'arith.remf' op cannot be compiled: use x - trunc(x / y) * y}}
  %3 = arith.remf %x, %x : f32
  return %0 : tensor<4xf32>
}

// -----

// Inside of loops and bodies too.
func.func @inside(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.map ins(%a : tensor<4xf32>) outs(%0 : tensor<4xf32>) (%x: f32, %o: f32) {
    // expected-error @+1 {{'math.log' op cannot be compiled: use nabla.log of the whole tensor}}
    %2 = math.log %x : f32
    linalg.yield %2 : f32
  }
  return %1 : tensor<4xf32>
}

// -----

func.func @power(%x: f32, %n: i32) -> f32 {
  // expected-error @+1 {{'math.fpowi' op cannot be compiled: use nabla.pow of the whole tensor}}
  %0 = math.fpowi %x, %n : f32, i32
  return %0 : f32
}

// -----

func.func @softmax(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tensor.empty() : tensor<4x8xf32>
  // expected-error @+1 {{'linalg.softmax' op cannot be compiled: use nabla.softmax}}
  %1 = linalg.softmax dimension(1) ins(%a : tensor<4x8xf32>) outs(%0 : tensor<4x8xf32>) -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// -----

// One of the same name; a row of the table; neither.
func.func @tosa(%a: tensor<1x2x2xf32>) -> tensor<1x2x2xf32> {
  // expected-error @+1 {{'tosa.tanh' op cannot be compiled: use nabla.tanh}}
  %0 = tosa.tanh %a : (tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  // expected-error @+1 {{'tosa.clamp' op cannot be compiled: use nabla.maximum and nabla.minimum}}
  %1 = tosa.clamp %0 {max_val = 1.0 : f32, min_val = 0.0 : f32} : (tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  // expected-error @+1 {{'tosa.identity' op cannot be compiled: use operations of nabla (docs/OPS.md), arith, tensor, linalg and scf}}
  %2 = tosa.identity %1 : (tensor<1x2x2xf32>) -> tensor<1x2x2xf32>
  return %2 : tensor<1x2x2xf32>
}

// -----

func.func @assert(%p: i1, %i: index) {
  // expected-error @+1 {{'cf.assert' op cannot be compiled: use nabla.custom_call of a function that fails, or return the condition}}
  cf.assert %p, "no"
  // expected-error @+1 {{'vector.print' op cannot be compiled: use a result of the function in place of it}}
  vector.print %i : index
  // expected-error @+1 {{'affine.for' op cannot be compiled: use scf.for}}
  affine.for %k = 0 to 4 {
  }
  return
}

// -----

// What bufferization does not know, though no row names it.
func.func @unknown(%a: tensor<4xf32>, %i: tensor<2x1xindex>) -> tensor<2xf32> {
  // expected-error @+1 {{'tensor.gather' op cannot be compiled: use nabla.gather}}
  %0 = tensor.gather %a[%i] gather_dims([0]) : (tensor<4xf32>, tensor<2x1xindex>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

//--- keeps.mlir
// CHECK-LABEL: func.func @keeps
func.func @keeps(%a: tensor<4xf32>, %x: f32, %i: index) -> tensor<4xf32> {
  %0 = math.sqrt %x : f32
  %1 = math.floor %0 : f32
  %2 = math.copysign %1, %x : f32
  %n = arith.constant 3 : i32
  %3 = math.fpowi %2, %n : f32, i32
  %4 = tensor.insert %3 into %a[%i] : tensor<4xf32>
  %5 = tensor.empty() : tensor<4xf32>
  %6 = linalg.sqrt ins(%4 : tensor<4xf32>) outs(%5 : tensor<4xf32>) -> tensor<4xf32>
  return %6 : tensor<4xf32>
}
// Kernels are made by passes.
// CHECK: llvm.func @kernel
llvm.func @kernel(%x: f32) -> f32 {
  %0 = math.exp %x : f32
  llvm.return %0 : f32
}

//--- folds.mlir
// FOLDS: llvm.func @nabla_entry_folds
func.func @folds(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.constant dense<1.0> : tensor<4xf32>
  %1 = math.exp %0 : tensor<4xf32>
  %2 = tosa.tanh %a : (tensor<4xf32>) -> tensor<4xf32>
  %3 = nabla.add %1, %a : tensor<4xf32>, tensor<4xf32>
  return %3 : tensor<4xf32>
}

//--- pipeline.mlir
// PIPELINE: pipeline.mlir:3:8: error: 'math.tanh' op cannot be compiled: use nabla.tanh of the whole tensor
func.func @pipeline(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = math.tanh %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}

//--- left.mlir
// LEFT: left.mlir:6:8: error: 'complex.exp' op cannot be compiled, no pass lowers it: use operations of nabla (docs/OPS.md), arith, tensor, linalg and scf
func.func @left(%a: tensor<4xf32>) -> tensor<4xf32> {
  %i = arith.constant 0 : index
  %0 = tensor.extract %a[%i] : tensor<4xf32>
  %1 = complex.create %0, %0 : complex<f32>
  %2 = complex.exp %1 : complex<f32>
  %3 = complex.re %2 : complex<f32>
  %4 = tensor.splat %3 : tensor<4xf32>
  return %4 : tensor<4xf32>
}

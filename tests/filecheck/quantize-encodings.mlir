// quantize into floats of 8 and 4 bits, ternary and binary: element operations
// of loops, without a function of the C library.
// RUN: nabla-opt "%s" --nabla-to-linalg | FileCheck "%s" --implicit-check-not='= nabla.' --implicit-check-not='math.{{[^a]}}' --implicit-check-not=llvm.call

// A sum for each index modulo 16, then a tree, as quant/ adds.
// CHECK-LABEL: func.func @ternary
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "reduction", "parallel"]
// CHECK: arith.addf %{{.*}} : f64
// CHECK: outs(%{{.*}} : tensor<4x8xf64>)
// CHECK: outs(%{{.*}} : tensor<4x4xf64>)
// CHECK: outs(%{{.*}} : tensor<4x2xf64>)
// CHECK: outs(%{{.*}} : tensor<4x1xf64>)
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: arith.shli %{{.*}} : i8
func.func @ternary(%x: tensor<2x64xf32>) -> (tensor<32xi8>, tensor<4xf32>) {
  %q = nabla.quantize %x : tensor<2x64xf32> -> !nabla.implicit<2x64xf32, #nabla.ternary<block = 32>>
  %p:2 = nabla.unpack %q : !nabla.implicit<2x64xf32, #nabla.ternary<block = 32>>
  return %p#0, %p#1 : tensor<32xi8>, tensor<4xf32>
}

// The last block is short: its mean is of the values that it has.
// CHECK-LABEL: func.func @binary_tail
// CHECK: linalg.index 0
// CHECK: arith.select %{{.*}} : f64
// CHECK: arith.cmpf oge
func.func @binary_tail(%x: tensor<37xf32>) -> (tensor<5xi8>, tensor<2xf16>) {
  %q = nabla.quantize %x : tensor<37xf32> -> !nabla.implicit<37xf32, #nabla.binary<block = 32, scale = f16>>
  %p:2 = nabla.unpack %q : !nabla.implicit<37xf32, #nabla.binary<block = 32, scale = f16>>
  return %p#0, %p#1 : tensor<5xi8>, tensor<2xf16>
}

// Scaled, then rounded in the bits of the f32: 20 of 23 mantissa bits go.
// CHECK-LABEL: func.func @fp8
// CHECK: arith.divf
// CHECK: arith.constant 20 : i32
// CHECK: arith.trunci %{{.*}} : i32 to i8
func.func @fp8(%x: tensor<4x16xf32>) -> (tensor<64xi8>, tensor<4xf32>) {
  %q = nabla.quantize %x : tensor<4x16xf32> -> !nabla.implicit<4x16xf32, #nabla.fp8<block = 0, blocks = leading>>
  %p:2 = nabla.unpack %q : !nabla.implicit<4x16xf32, #nabla.fp8<block = 0, blocks = leading>>
  return %p#0, %p#1 : tensor<64xi8>, tensor<4xf32>
}

// The scale is a power of two: no division.
// CHECK-LABEL: func.func @mxfp4
// CHECK-NOT: arith.divf
// CHECK: arith.constant 22 : i32
// CHECK: arith.shli %{{.*}} : i8
// CHECK: return
func.func @mxfp4(%x: tensor<64xf32>) -> (tensor<32xi8>, tensor<2xi8>) {
  %q = nabla.quantize %x : tensor<64xf32> -> !nabla.implicit<64xf32, #nabla.mxfp4>
  %p:2 = nabla.unpack %q : !nabla.implicit<64xf32, #nabla.mxfp4>
  return %p#0, %p#1 : tensor<32xi8>, tensor<2xi8>
}

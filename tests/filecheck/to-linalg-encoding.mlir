// Implicit arrays: quantize makes the components, materialize reads them, what
// is packed only to be unpacked disappears.
// RUN: nabla-opt "%s" --nabla-to-linalg | FileCheck "%s" --implicit-check-not='= nabla.' --implicit-check-not=implicit
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=LLVM --implicit-check-not=unrealized_conversion_cast
// LLVM: llvm.func @nabla_entry_nf4

!nf4 = !nabla.implicit<4x8xf32, #nabla.nf4<block = 16>>
!nf4t = !nabla.implicit<8x4xf32, #nabla.nf4<block = 16>, view<4x8, strides = [1, 8], offset = 0>>
!rows = !nabla.implicit<4x8xbf16, #nabla.int8<block = 0, blocks = leading>>

// CHECK-LABEL: func.func @nf4
// CHECK-SAME: %[[C:.*]]: tensor<16xi8>, %[[S:.*]]: tensor<2xf32>
// CHECK: %[[T:.*]] = arith.constant dense<[-1.000000e+00, -0.6961928, {{.*}}, 1.000000e+00]> : tensor<16xf32>
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<4x8xf32>)
// CHECK: %[[EIGHT:.*]] = arith.constant 8 : i64
// CHECK: arith.muli %{{.*}}, %[[EIGHT]]
// CHECK: %[[SCALE:.*]] = tensor.extract %[[S]]
// CHECK: tensor.extract %[[C]]
// CHECK: %[[V:.*]] = tensor.extract %[[T]]
// CHECK: arith.mulf %[[V]], %[[SCALE]] : f32
func.func @nf4(%c: tensor<16xi8>, %s: tensor<2xf32>) -> tensor<4x8xf32> {
  %q = nabla.pack %c, %s : tensor<16xi8>, tensor<2xf32> -> !nf4
  %0 = nabla.materialize %q : !nf4
  return %0 : tensor<4x8xf32>
}

// Views have their operand's components; their strides say where to read.
// CHECK-LABEL: func.func @view
// CHECK-SAME: %[[C:.*]]: tensor<16xi8>, %[[S:.*]]: tensor<2xf32>
// CHECK: outs(%{{.*}} : tensor<8x4xf32>)
// CHECK: %[[I:.*]] = linalg.index 0
// CHECK: %[[ROW:.*]] = arith.index_cast %[[I]]
// CHECK: arith.addi %{{.*}}, %[[ROW]]
// CHECK: linalg.index 1
// CHECK: arith.constant 8 : i64
// CHECK: tensor.extract %[[S]]
func.func @view(%c: tensor<16xi8>, %s: tensor<2xf32>) -> tensor<8x4xf32> {
  %q = nabla.pack %c, %s : tensor<16xi8>, tensor<2xf32> -> !nf4
  %t = nabla.transpose %q permutation = [1, 0] : !nf4
  %0 = nabla.materialize %t : !nf4t
  return %0 : tensor<8x4xf32>
}

// Rows: (code * scale) * 1/127, then rounded to the element type.
// CHECK-LABEL: func.func @int8_rows
// CHECK: %[[F:.*]] = arith.sitofp %{{.*}} : i8 to f32
// CHECK: %[[A:.*]] = arith.mulf %[[F]], %{{.*}} : f32
// CHECK: %[[STEP:.*]] = arith.constant 0.00787401571 : f32
// CHECK: arith.mulf %[[A]], %[[STEP]] : f32
// CHECK: arith.bitcast %{{.*}} : i16 to bf16
func.func @int8_rows(%c: tensor<32xi8>, %s: tensor<4xf32>) -> tensor<4x8xbf16> {
  %q = nabla.pack %c, %s : tensor<32xi8>, tensor<4xf32> -> !rows
  %0 = nabla.materialize %q : !rows
  return %0 : tensor<4x8xbf16>
}

// CHECK-LABEL: func.func @splat
// CHECK: %[[V:.*]] = arith.constant 9.997550e-02 : f16
// CHECK: linalg.fill ins(%[[V]] : f16)
func.func @splat() -> tensor<4x8xf16> {
  %q = nabla.pack -> !nabla.implicit<4x8xf16, #nabla.splat<0.1 : f64>>
  %0 = nabla.materialize %q : !nabla.implicit<4x8xf16, #nabla.splat<0.1 : f64>>
  return %0 : tensor<4x8xf16>
}

// 15 steps make 16 codes, for each of two elements; blocks are whole.
// CHECK-LABEL: func.func @quantize
// CHECK-NOT: tensor.pad
// CHECK: arith.maxui
// CHECK: linalg.generic {{.*}} outs(%{{.*}} : tensor<2x8xi8>)
// CHECK-COUNT-30: arith.cmpf oge
// CHECK-NOT: arith.cmpf oge
// CHECK: %[[CODES:.*]] = tensor.collapse_shape %{{.*}} : tensor<2x8xi8> into tensor<16xi8>
// CHECK: return %[[CODES]], %{{.*}} : tensor<16xi8>, tensor<2xf32>
func.func @quantize(%a: tensor<4x8xf32>) -> (tensor<16xi8>, tensor<2xf32>) {
  %q = nabla.quantize %a : tensor<4x8xf32> -> !nf4
  %c, %s = nabla.unpack %q : !nf4
  return %c, %s : tensor<16xi8>, tensor<2xf32>
}

// A short last block is filled up, and its codes are cut off again.
// CHECK-LABEL: func.func @quantize_tail
// CHECK: tensor.pad %{{.*}} low[0] high[11]
// CHECK: tensor.extract_slice %{{.*}}[0] [11] [1] : tensor<16xi8> to tensor<11xi8>
func.func @quantize_tail(%a: tensor<3x7xf32>) -> (tensor<11xi8>, tensor<2xf32>) {
  %q = nabla.quantize %a : tensor<3x7xf32> -> !nabla.implicit<3x7xf32, #nabla.fp4<block = 16>>
  %c, %s = nabla.unpack %q : !nabla.implicit<3x7xf32, #nabla.fp4<block = 16>>
  return %c, %s : tensor<11xi8>, tensor<2xf32>
}

// CHECK-LABEL: func.func @quantize_rows
// CHECK: arith.constant 0x4B400000
// CHECK: arith.fptosi %{{.*}} : f32 to i8
func.func @quantize_rows(%a: tensor<4x8xbf16>) -> (tensor<32xi8>, tensor<4xf32>) {
  %q = nabla.quantize %a : tensor<4x8xbf16> -> !rows
  %c, %s = nabla.unpack %q : !rows
  return %c, %s : tensor<32xi8>, tensor<4xf32>
}

// CHECK-LABEL: func.func @unpack
// CHECK-NEXT: return %arg0, %arg1
func.func @unpack(%c: tensor<16xi8>, %s: tensor<2xf32>) -> (tensor<16xi8>, tensor<2xf32>) {
  %q = nabla.pack %c, %s : tensor<16xi8>, tensor<2xf32> -> !nf4
  %t = nabla.transpose %q permutation = [1, 0] : !nf4
  %c2, %s2 = nabla.unpack %t : !nf4t
  return %c2, %s2 : tensor<16xi8>, tensor<2xf32>
}

// Many elements in rows: a kernel on several threads, all of whose rows are
// needed by a caller that wants a part of the result (the highest bit).
// CHECK-LABEL: func.func @rows
// CHECK: %[[AT:.*]] = linalg.generic {{.*}} outs(%{{.*}} : tensor<64xi64>)
// CHECK: call @nabla_runs_as_F32_nabla_fused_nf4_b64_1x40_of4096_at0_64_1_F32_F32_m1to1_of_64(%{{.*}}, %arg0, %arg1) : (tensor<64xi64>, tensor<2048xi8>, tensor<64xf32>) -> tensor<2560xf32>
// CHECK: tensor.expand_shape
func.func @rows(%c: tensor<2048xi8>, %s: tensor<64xf32>) -> tensor<64x40xf32> {
  %q = nabla.pack %c, %s : tensor<2048xi8>, tensor<64xf32> -> !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>>
  %p = nabla.slice %q starts = [0, 0] limits = [64, 40] strides = [1, 1] : !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>>
  %0 = nabla.materialize %p : !nabla.implicit<64x40xf32, #nabla.nf4<block = 64>, view<64x64, strides = [64, 1], offset = 0>>
  return %0 : tensor<64x40xf32>
}

// nabla.fused_attention becomes a call of a function that checks what types
// leave open and runs the kernels; nothing has the size of all scores.
// RUN: nabla-opt "%s" --split-input-file --nabla-lower-fused=features=avx | FileCheck "%s"

// One row for each head of k: the kernel that reads k as it is. The only memory
// is the result and the partial results of pieces.
// CHECK-LABEL: func.func private @nabla_attention_F32_F32_64x64_one
// CHECK-NOT: nabla_require_equal
// CHECK: memref.alloc(%{{.*}}) {alignment = 64 : i64} : memref<?xi8>
// CHECK: memref.alloc() : memref<2x1x64xf32>
// CHECK-NOT: memref.alloc
// CHECK: %[[K:.*]] = llvm.mlir.addressof @nabla_attention_F32_F32_64x64_one_few
// CHECK: %[[J:.*]] = llvm.mlir.addressof @nabla_attention_F32_F32_64x64_one_join
// CHECK: call @nabla_parallel(%[[K]],
// CHECK: call @nabla_parallel(%[[J]],
// CHECK-LABEL: func.func @step(
// CHECK-NEXT: %[[Y:.*]] = call @nabla_attention
// CHECK-NEXT: return %[[Y]]
func.func @step(%q: tensor<2x1x64xf32>, %k: tensor<2x512x64xf32>) -> tensor<2x1x64xf32> {
  %y = nabla.fused_attention %q, %k, %k : tensor<2x1x64xf32>, tensor<2x512x64xf32>, tensor<2x512x64xf32>
  return %y : tensor<2x1x64xf32>
}

// -----

// Both kernels where the number of rows is not known; sizes that have to agree
// are checked: keys of k and v, both sizes of the mask.
// CHECK-LABEL: func.func private @nabla_attention_F32_BF16_16x8_masked_causal_
// CHECK-COUNT-3: call @nabla_require_equal
// CHECK: arith.select %{{.*}}, %{{.*}}, %{{.*}} : !llvm.ptr
// CHECK-DAG: llvm.func internal @nabla_attention_F32_BF16_16x8_masked_causal_few(
// CHECK-DAG: llvm.func internal @nabla_attention_F32_BF16_16x8_masked_causal_many(
// CHECK-DAG: llvm.func internal @nabla_attention_F32_BF16_16x8_masked_causal_join(
// CHECK-LABEL: func.func @open(
// CHECK-NOT: = nabla.fused_attention
func.func @open(%q: tensor<4x?x16xf32>, %k: tensor<2x?x16xbf16>, %v: tensor<2x?x8xbf16>, %m: tensor<?x?xi1>, %n: tensor<i64>) -> tensor<4x?x8xf32> {
  %y = nabla.fused_attention %q, %k, %v mask(%m : tensor<?x?xi1>) keys(%n : tensor<i64>) causal : tensor<4x?x16xf32>, tensor<2x?x16xbf16>, tensor<2x?x8xbf16>
  return %y : tensor<4x?x8xf32>
}

// -----

// A layer and the first keys of a cache are read where they are, with strides.
// CHECK-LABEL: func.func private @nabla_attention_F32_F32_64x64_one
// CHECK-SAME: tensor<8x300x64xf32> {bufferization.buffer_layout = strided<[?, ?, 1], offset: ?>}
// CHECK: memref.extract_strided_metadata
// CHECK-LABEL: func.func @part(
// CHECK: %[[K:.*]] = tensor.extract_slice %arg1[1, 0, 0, 0] [1, 8, 300, 64] [1, 1, 1, 1] : tensor<4x8x512x64xf32> to tensor<8x300x64xf32>
// CHECK: %[[V:.*]] = tensor.extract_slice %arg1[1, 0, 0, 0]
// CHECK: call @nabla_attention{{.*}}(%arg0, %[[K]], %[[V]])
func.func @part(%q: tensor<8x1x64xf32>, %c: tensor<4x8x512x64xf32>) -> tensor<8x1x64xf32> {
  %l = nabla.slice %c starts = [1, 0, 0, 0] limits = [2, 8, 300, -1] : tensor<4x8x512x64xf32>
  %k = nabla.reshape %l : tensor<1x8x300x64xf32> -> tensor<8x300x64xf32>
  %y = nabla.fused_attention %q, %k, %k : tensor<8x1x64xf32>, tensor<8x300x64xf32>, tensor<8x300x64xf32>
  return %y : tensor<8x1x64xf32>
}

// -----

// Every second key is no part with neighbours, nor is a reshape of other
// dimensions than of 1.
// CHECK-LABEL: func.func @no_part(
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @no_part(%q: tensor<8x1x64xf32>, %c: tensor<8x512x64xf32>, %d: tensor<16x256x64xf32>) -> tensor<8x1x64xf32> {
  %k = nabla.slice %c starts = [0, 0, 0] limits = [8, 512, 64] strides = [1, 2, 1] : tensor<8x512x64xf32>
  %p = nabla.slice %d starts = [0, 0, 0] limits = [16, 128, 64] : tensor<16x256x64xf32>
  %v = nabla.reshape %p : tensor<16x128x64xf32> -> tensor<8x256x64xf32>
  %y = nabla.fused_attention %q, %k, %v : tensor<8x1x64xf32>, tensor<8x256x64xf32>, tensor<8x256x64xf32>
  return %y : tensor<8x1x64xf32>
}

// -----

// A last dimension of 1 beside others of 1: which of them is left out is MLIR's
// choice, so that the elements need not be consecutive.
// CHECK-LABEL: func.func @ones(
// CHECK-NOT: tensor.extract_slice
// CHECK: return
func.func @ones(%q: tensor<1x1xf32>, %c: tensor<3x3x3xf32>) -> tensor<1x1xf32> {
  %l = nabla.slice %c starts = [1, 1, 1] limits = [2, 2, 2] : tensor<3x3x3xf32>
  %k = nabla.reshape %l : tensor<1x1x1xf32> -> tensor<1x1xf32>
  %y = nabla.fused_attention %q, %k, %k : tensor<1x1xf32>, tensor<1x1xf32>, tensor<1x1xf32>
  return %y : tensor<1x1xf32>
}

// -----

// Two operations with the same types share the function and the kernels.
// CHECK-COUNT-1: func.func private @nabla_attention_F32_F32_8x8_
// CHECK-NOT: func.func private @nabla_attention
// CHECK-LABEL: func.func @twice(
func.func @twice(%q: tensor<20x8xf32>) -> tensor<20x8xf32> {
  %a = nabla.fused_attention %q, %q, %q : tensor<20x8xf32>, tensor<20x8xf32>, tensor<20x8xf32>
  %b = nabla.fused_attention %a, %q, %q : tensor<20x8xf32>, tensor<20x8xf32>, tensor<20x8xf32>
  return %b : tensor<20x8xf32>
}

// -----

// Numbers of keys of other types, and other scales, are other functions of the
// same kernels.
// CHECK-DAG: func.func private @nabla_attention_F32_F32_8x8_3eb504f3_on_20_8_on_20_8_on_20_8_on_i64(
// CHECK-DAG: func.func private @nabla_attention_F32_F32_8x8_3eb504f3_on_20_8_on_20_8_on_20_8_on_i32(
// CHECK-DAG: func.func private @nabla_attention_F32_F32_8x8_40000000_on_20_8_on_20_8_on_20_8_on_i64(
// CHECK-LABEL: func.func @others(
// CHECK: call @nabla_attention_F32_F32_8x8_3eb504f3_on_20_8_on_20_8_on_20_8_on_i64(
// CHECK: call @nabla_attention_F32_F32_8x8_3eb504f3_on_20_8_on_20_8_on_20_8_on_i32(
// CHECK: call @nabla_attention_F32_F32_8x8_40000000_on_20_8_on_20_8_on_20_8_on_i64(
func.func @others(%q: tensor<20x8xf32>, %n: tensor<i64>, %m: tensor<i32>) -> (tensor<20x8xf32>, tensor<20x8xf32>, tensor<20x8xf32>) {
  %a = nabla.fused_attention %q, %q, %q keys(%n : tensor<i64>) : tensor<20x8xf32>, tensor<20x8xf32>, tensor<20x8xf32>
  %b = nabla.fused_attention %q, %q, %q keys(%m : tensor<i32>) : tensor<20x8xf32>, tensor<20x8xf32>, tensor<20x8xf32>
  %c = nabla.fused_attention %q, %q, %q keys(%n : tensor<i64>) scale = 2.0 : tensor<20x8xf32>, tensor<20x8xf32>, tensor<20x8xf32>
  return %a, %b, %c : tensor<20x8xf32>, tensor<20x8xf32>, tensor<20x8xf32>
}

// -----

// The heads of q are a multiple of those of k.
// CHECK-LABEL: func.func private @nabla_attention_F32_F32_16x16
// CHECK: %[[SHARES:.*]] = arith.divui %[[H:[^,]*]],
// CHECK-NEXT: %[[SHARED:.*]] = arith.muli %[[SHARES]],
// CHECK-NEXT: call @nabla_require_equal(%[[H]], %[[SHARED]],
func.func @heads(%q: tensor<?x4x16xf32>, %k: tensor<2x8x16xf32>) -> tensor<?x4x16xf32> {
  %y = nabla.fused_attention %q, %k, %k : tensor<?x4x16xf32>, tensor<2x8x16xf32>, tensor<2x8x16xf32>
  return %y : tensor<?x4x16xf32>
}

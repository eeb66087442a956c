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

// Two operations with the same types share the function and the kernels.
// CHECK-COUNT-1: func.func private @nabla_attention_F32_F32_8x8_
// CHECK-NOT: func.func private @nabla_attention
// CHECK-LABEL: func.func @twice(
func.func @twice(%q: tensor<20x8xf32>) -> tensor<20x8xf32> {
  %a = nabla.fused_attention %q, %q, %q : tensor<20x8xf32>, tensor<20x8xf32>, tensor<20x8xf32>
  %b = nabla.fused_attention %a, %q, %q : tensor<20x8xf32>, tensor<20x8xf32>, tensor<20x8xf32>
  return %b : tensor<20x8xf32>
}

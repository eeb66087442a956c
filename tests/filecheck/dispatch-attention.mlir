// Attention of dense arrays becomes a kernel; what no kernel computes stays, to
// be decomposed, with a remark that says why.
// RUN: nabla-opt "%s" --split-input-file --nabla-dispatch | FileCheck "%s"
// RUN: nabla-opt "%s" --split-input-file --nabla-dispatch --remarks-filter-missed='nabla.*' 2>&1 | FileCheck "%s" --check-prefix=REMARK

// CHECK-LABEL: func.func @grouped(
// CHECK-NEXT: %[[Y:.*]] = nabla.fused_attention %arg0, %arg1, %arg1 causal : tensor<8x?x64xf32>, tensor<2x?x64xf32>, tensor<2x?x64xf32>
// CHECK-NEXT: return %[[Y]]
func.func @grouped(%q: tensor<8x?x64xf32>, %k: tensor<2x?x64xf32>) -> tensor<8x?x64xf32> {
  %y = nabla.attention %q, %k, %k causal : tensor<8x?x64xf32>, tensor<2x?x64xf32>, tensor<2x?x64xf32>
  return %y : tensor<8x?x64xf32>
}

// CHECK-LABEL: func.func @cache(
// CHECK-NEXT: nabla.fused_attention %arg0, %arg1, %arg1 mask(%arg2 : tensor<1x9xi1>) keys(%arg3 : tensor<i32>) scale = 5.000000e-01 : tensor<2x1x8xf32>, tensor<2x9x8xbf16>, tensor<2x9x8xbf16>
func.func @cache(%q: tensor<2x1x8xf32>, %k: tensor<2x9x8xbf16>, %m: tensor<1x9xi1>, %n: tensor<i32>) -> tensor<2x1x8xf32> {
  %y = nabla.attention %q, %k, %k mask(%m : tensor<1x9xi1>) keys(%n : tensor<i32>) scale = 0.5 : tensor<2x1x8xf32>, tensor<2x9x8xbf16>, tensor<2x9x8xbf16>
  return %y : tensor<2x1x8xf32>
}

// -----

// REMARK: q, k and v are not tensors of f32, f16 or bf16
// CHECK-LABEL: func.func @doubles(
// CHECK-NEXT: nabla.attention %arg0, %arg0, %arg0 : tensor<3x8xf64>
func.func @doubles(%q: tensor<3x8xf64>) -> tensor<3x8xf64> {
  %y = nabla.attention %q, %q, %q : tensor<3x8xf64>, tensor<3x8xf64>, tensor<3x8xf64>
  return %y : tensor<3x8xf64>
}

// -----

// REMARK: a head has more than 256 elements
// CHECK-LABEL: func.func @wide(
// CHECK-NEXT: nabla.attention %arg0
func.func @wide(%q: tensor<3x257xf32>) -> tensor<3x257xf32> {
  %y = nabla.attention %q, %q, %q : tensor<3x257xf32>, tensor<3x257xf32>, tensor<3x257xf32>
  return %y : tensor<3x257xf32>
}

// -----

// REMARK: the size of a head is not known
// CHECK-LABEL: func.func @open(
// CHECK-NEXT: nabla.attention %arg0
func.func @open(%q: tensor<3x8xf32>, %v: tensor<3x?xf32>) -> tensor<3x?xf32> {
  %y = nabla.attention %q, %q, %v : tensor<3x8xf32>, tensor<3x8xf32>, tensor<3x?xf32>
  return %y : tensor<3x?xf32>
}

// -----

// REMARK: a head has no elements
// CHECK-LABEL: func.func @empty(
// CHECK-NEXT: nabla.attention %arg0
func.func @empty(%q: tensor<3x0xf32>, %v: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %y = nabla.attention %q, %q, %v : tensor<3x0xf32>, tensor<3x0xf32>, tensor<3x2xf32>
  return %y : tensor<3x2xf32>
}

// -----

!k = !nabla.implicit<2x64x64xf32, #nabla.nf4<block = 64>>

// A packed cache is decomposed.
// CHECK-LABEL: func.func @packed(
// CHECK-NOT: attention
func.func @packed(%q: tensor<2x1x64xf32>, %k: !k, %v: tensor<2x64x64xf32>) -> tensor<2x1x64xf32> {
  %y = nabla.attention %q, %k, %v : tensor<2x1x64xf32>, !k, tensor<2x64x64xf32>
  return %y : tensor<2x1x64xf32>
}

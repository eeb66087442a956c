// Each operation in linalg, tensor and arith. f16 and bf16 are computed in f32
// and rounded once; nothing calls libm.
// RUN: nabla-opt "%s" --nabla-to-linalg=features=f16c \
// RUN:   | FileCheck "%s" --implicit-check-not='= nabla.' --implicit-check-not='math.'
// All of it reaches the LLVM dialect.
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=LLVM --implicit-check-not=unrealized_conversion_cast

// LLVM: llvm.func @nabla_entry_add

// Maps stand at the top: of @dot, then of @broadcast.
// CHECK-DAG: #[[LHS:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d0, d3, d1, d4)>
// CHECK-DAG: #[[RHS:.*]] = affine_map<(d0, d1, d2, d3, d4) -> (d4, d0, d2, d3)>
// CHECK-DAG: #[[ONE:.*]] = affine_map<(d0, d1, d2) -> (0, d0)>

// CHECK-LABEL: func.func @add
// CHECK-NOT: call
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg1 : tensor<8x4xf32>, tensor<8x4xf32>) outs
// CHECK: %[[S:.*]] = arith.addf %in, %{{.*}} : f32
// CHECK: linalg.yield %[[S]] : f32
func.func @add(%a: tensor<8x4xf32>, %b: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = nabla.add %a, %b : tensor<8x4xf32>, tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// Rank 0.
// CHECK-LABEL: func.func @mul_scalar
// CHECK: linalg.generic {{.*}} iterator_types = []} ins(%arg0, %arg0 : tensor<i32>, tensor<i32>)
// CHECK: arith.muli %{{.*}}, %{{.*}} : i32
func.func @mul_scalar(%a: tensor<i32>) -> tensor<i32> {
  %0 = nabla.mul %a, %a : tensor<i32>, tensor<i32>
  return %0 : tensor<i32>
}

// CHECK-LABEL: func.func @mul_f16
// CHECK: %[[A:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK: %[[B:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK: %[[P:.*]] = arith.mulf %[[A]], %[[B]] : f32
// CHECK: arith.truncf %[[P]] : f32 to f16
func.func @mul_f16(%a: tensor<4xf16>, %b: tensor<4xf16>) -> tensor<4xf16> {
  %0 = nabla.mul %a, %b : tensor<4xf16>, tensor<4xf16>
  return %0 : tensor<4xf16>
}

// CHECK-LABEL: func.func @add_bf16
// CHECK-NOT: truncf
// CHECK: arith.addf %{{.*}}, %{{.*}} : f32
// CHECK: arith.trunci %{{.*}} : i32 to i16
// CHECK-LABEL: func.func @relu
func.func @add_bf16(%a: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = nabla.add %a, %a : tensor<4xbf16>, tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// CHECK: %[[Z:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[K:.*]] = arith.cmpf ugt, %[[X:.*]], %[[Z]] : f32
// CHECK: arith.select %[[K]], %[[X]], %[[Z]] : f32
func.func @relu(%a: tensor<?xf32>) -> tensor<?xf32> {
  %0 = nabla.relu %a : tensor<?xf32>
  return %0 : tensor<?xf32>
}

// CHECK-LABEL: func.func @silu
// CHECK: arith.divf %{{.*}}, %{{.*}} : f64
func.func @silu(%a: tensor<0x3xf32>) -> tensor<0x3xf32> {
  %0 = nabla.silu %a : tensor<0x3xf32>
  return %0 : tensor<0x3xf32>
}

// Unsigned integers are computed as signless ones.
// CHECK-LABEL: func.func @max_u8
// CHECK: arith.constant 0 : i8
// CHECK: arith.maxui %{{.*}}, %{{.*}} : i8
func.func @max_u8(%a: tensor<?xui8>) -> tensor<ui8> {
  %0 = nabla.reduce max %a dims = [0] : tensor<?xui8>
  return %0 : tensor<ui8>
}

// From the lowest value on; NaN wins.
// CHECK-LABEL: func.func @max
// CHECK: arith.constant 0xFF800000 : f32
// CHECK: linalg.fill
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<?x8xf32>) outs(%{{.*}} : tensor<?xf32>)
// CHECK: arith.maximumf
func.func @max(%a: tensor<?x8xf32>) -> tensor<?xf32> {
  %0 = nabla.reduce max %a dims = [1] : tensor<?x8xf32>
  return %0 : tensor<?xf32>
}

// CHECK-LABEL: func.func @sum_bf16
// CHECK: tensor.empty(%{{.*}}) : tensor<1x?xf32>
// CHECK: arith.constant 0.000000e+00 : f32
// CHECK: linalg.generic {{.*}} iterator_types = ["parallel", "reduction"]} ins(%arg0 : tensor<8x?xbf16>) outs(%{{.*}} : tensor<1x?xf32>)
// CHECK: arith.addf
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<1x?xf32>) outs(%{{.*}} : tensor<1x?xbf16>)
func.func @sum_bf16(%a: tensor<8x?xbf16>) -> tensor<1x?xbf16> {
  %0 = nabla.reduce sum %a dims = [0] keep_dims : tensor<8x?xbf16>
  return %0 : tensor<1x?xbf16>
}

// Batching, free dimensions of lhs and rhs, then contracting ones in order.
// CHECK-LABEL: func.func @dot
// CHECK: linalg.fill
// CHECK: linalg.generic {indexing_maps = [#[[LHS]], #[[RHS]], #{{.*}}], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
// CHECK: %[[P:.*]] = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK: arith.addf %{{.*}}, %[[P]] : f32
func.func @dot(%a: tensor<2x3x4x5xf32>, %b: tensor<5x2x6x3xf32>) -> tensor<2x4x6xf32> {
  %0 = nabla.dot_general %a, %b batching = [0] x [1] contracting = [1, 3] x [3, 0] : tensor<2x3x4x5xf32>, tensor<5x2x6x3xf32>
  return %0 : tensor<2x4x6xf32>
}

// CHECK-LABEL: func.func @dot_f16
// CHECK: tensor.extract_slice %arg0[0] [4] [1] : tensor<?xf16> to tensor<4xf16>
// CHECK: linalg.generic {{.*}} ins(%{{.*}}, %arg1 : tensor<4xf16>, tensor<4x5xf16>) outs(%{{.*}} : tensor<5xf32>)
// CHECK: linalg.generic {{.*}} ins(%{{.*}} : tensor<5xf32>) outs(%{{.*}} : tensor<5xf16>)
func.func @dot_f16(%a: tensor<?xf16>, %b: tensor<4x5xf16>) -> tensor<5xf16> {
  %0 = nabla.dot_general %a, %b contracting = [0] x [0] : tensor<?xf16>, tensor<4x5xf16>
  return %0 : tensor<5xf16>
}

// CHECK-LABEL: func.func @transpose
// CHECK: tensor.empty(%{{.*}}) : tensor<4x?xf32>
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<?x4xf32>) outs(%{{.*}} : tensor<4x?xf32>)
func.func @transpose(%a: tensor<?x4xf32>) -> tensor<4x?xf32> {
  %0 = nabla.transpose %a permutation = [1, 0] : tensor<?x4xf32>
  return %0 : tensor<4x?xf32>
}

// Nothing moves.
// CHECK-LABEL: func.func @transpose_not
// CHECK-NEXT: return %arg0, %arg1
func.func @transpose_not(%a: tensor<?x4xf32>, %b: tensor<f32>) -> (tensor<?x4xf32>, tensor<f32>) {
  %0 = nabla.transpose %a permutation = [0, 1] : tensor<?x4xf32>
  %1 = nabla.transpose %b permutation = [] : tensor<f32>
  return %0, %1 : tensor<?x4xf32>, tensor<f32>
}

// CHECK-LABEL: func.func @reshape
// CHECK: %[[F:.*]] = tensor.collapse_shape %arg0 {{\[\[}}0, 1]] : tensor<2x6xf32> into tensor<12xf32>
// CHECK: tensor.expand_shape %[[F]] {{\[\[}}0, 1]] output_shape [3, 4] : tensor<12xf32> into tensor<3x4xf32>
func.func @reshape(%a: tensor<2x6xf32>) -> tensor<3x4xf32> {
  %0 = nabla.reshape %a : tensor<2x6xf32> -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}

// CHECK-LABEL: func.func @reshape_scalar
// CHECK: tensor.expand_shape %arg0 [] output_shape [1] : tensor<f32> into tensor<1xf32>
// CHECK: tensor.expand_shape %{{.*}} {{\[\[}}0, 1]] output_shape [1, 1]
func.func @reshape_scalar(%a: tensor<f32>) -> tensor<1x1xf32> {
  %0 = nabla.reshape %a : tensor<f32> -> tensor<1x1xf32>
  return %0 : tensor<1x1xf32>
}

// CHECK-LABEL: func.func @reshape_empty
// CHECK: tensor.empty(%{{.*}}) : tensor<?x0x3xf32>
// CHECK-NOT: expand_shape
func.func @reshape_empty(%a: tensor<?x5xf32>) -> tensor<?x0x3xf32> {
  %0 = nabla.reshape %a : tensor<?x5xf32> -> tensor<?x0x3xf32>
  return %0 : tensor<?x0x3xf32>
}

// CHECK-LABEL: func.func @reshape_not
// CHECK-NEXT: return %arg0
func.func @reshape_not(%a: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = nabla.reshape %a : tensor<?x4xf32> -> tensor<?x4xf32>
  return %0 : tensor<?x4xf32>
}

// A dimension of size 1 is read at index 0.
// CHECK-LABEL: func.func @broadcast
// CHECK-NOT: call
// CHECK: linalg.generic {indexing_maps = [#[[ONE]], #{{.*}}], {{.*}} ins(%arg0 : tensor<1x4xf32>) outs(%{{.*}} : tensor<4x3x5xf32>)
func.func @broadcast(%a: tensor<1x4xf32>) -> tensor<4x3x5xf32> {
  %0 = nabla.broadcast_in_dim %a dims = [2, 0] : tensor<1x4xf32> -> tensor<4x3x5xf32>
  return %0 : tensor<4x3x5xf32>
}

// CHECK-LABEL: func.func @constant
// CHECK-NEXT: arith.constant dense<[1.500000e+00, 2.000000e+00]> : tensor<2xbf16>
// CHECK-NEXT: arith.constant dense<255> : tensor<3xui8>
func.func @constant() -> (tensor<2xbf16>, tensor<3xui8>) {
  %0 = nabla.constant dense<[1.5, 2.0]> : tensor<2xbf16>
  %1 = nabla.constant dense<255> : tensor<3xui8>
  return %0, %1 : tensor<2xbf16>, tensor<3xui8>
}

// Inside of regions too.
// CHECK-LABEL: func.func @region
// CHECK: scf.if
// CHECK-NEXT: tensor.empty
// CHECK-NEXT: linalg.generic
func.func @region(%c: tensor<i1>, %a: tensor<4xf32>) -> tensor<4xf32> {
  %b = tensor.extract %c[] : tensor<i1>
  %0 = scf.if %b -> tensor<4xf32> {
    %1 = nabla.add %a, %a : tensor<4xf32>, tensor<4xf32>
    scf.yield %1 : tensor<4xf32>
  } else {
    scf.yield %a : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// What is not ours stays.
// CHECK-LABEL: func.func @other
// CHECK-NEXT: %[[E:.*]] = tensor.empty() : tensor<4xf32>
// CHECK-NEXT: %[[S:.*]] = linalg.add ins(%arg0, %arg0 : tensor<4xf32>, tensor<4xf32>) outs(%[[E]] : tensor<4xf32>)
// CHECK-NEXT: return %[[S]]
func.func @other(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.add ins(%a, %a : tensor<4xf32>, tensor<4xf32>) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

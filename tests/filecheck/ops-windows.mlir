// Convolutions and pools: printed as they are read, types, linalg, rules.
// RUN: nabla-opt "%s" > "%t.once"
// RUN: nabla-opt "%t.once" --emit-bytecode | nabla-opt --allow-bytecode > "%t.twice"
// RUN: diff "%t.once" "%t.twice"
// RUN: FileCheck "%s" --input-file="%t.once"
// RUN: nabla-opt "%s" --nabla-dispatch=policy=error | FileCheck "%s" --check-prefix=RULE --implicit-check-not=nabla.materialize
// RUN: nabla-opt "%s" --nabla-dispatch --nabla-lower-implicit --nabla-lower-fused --nabla-to-linalg=features=f16c | FileCheck "%s" --check-prefix=LINALG --implicit-check-not='= nabla.'
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=LLVM --implicit-check-not=unrealized_conversion_cast

// LLVM: llvm.func @nabla_entry_image

!half = !nabla.implicit<4x3x3x3xf32, #nabla.splat<0.5 : f32>>

// Channels last, as StableHLO's [b, 0, 1, f] x [0, 1, i, o] -> [b, 0, 1, f].
// CHECK-LABEL: func.func @image
// CHECK: nabla.conv_general %{{.*}}, %{{.*}} strides = [2, 1] low = [1, 0] high = [1, -1] input_dilation = [1, 2] kernel_dilation = [2, 1] groups = 2 input_dims = [0, 3, 1, 2] kernel_dims = [3, 2, 0, 1] output_dims = [0, 3, 1, 2] : tensor<?x9x8x4xf16>, tensor<3x2x2x6xf16>
// LINALG-LABEL: func.func @image
// LINALG: tensor.insert_slice
// LINALG: linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction", "reduction", "parallel"]} ins(%arg1 : tensor<3x2x2x6xf16>)
// LINALG-DAG: arith.divui
// LINALG-DAG: arith.extf {{.*}} : f16 to f32
// LINALG: arith.addf {{.*}} : f32
// LINALG: arith.truncf {{.*}} : f32 to f16
func.func @image(%x: tensor<?x9x8x4xf16>, %k: tensor<3x2x2x6xf16>) -> tensor<?x4x13x6xf16> {
  %0 = nabla.conv_general %x, %k strides = [2, 1] low = [1, 0] high = [1, -1] input_dilation = [1, 2] kernel_dilation = [2, 1] groups = 2 input_dims = [0, 3, 1, 2] kernel_dims = [3, 2, 0, 1] output_dims = [0, 3, 1, 2] : tensor<?x9x8x4xf16>, tensor<3x2x2x6xf16>
  return %0 : tensor<?x4x13x6xf16>
}

// What has its default is not printed; nothing is padded.
// CHECK-LABEL: func.func @plain
// CHECK: nabla.conv_general %{{.*}}, %{{.*}} : tensor<2x3x9xf64>, tensor<4x3x?xf64>
// LINALG-LABEL: func.func @plain
// LINALG-NOT: insert_slice
// LINALG: return
func.func @plain(%x: tensor<2x3x9xf64>, %k: tensor<4x3x?xf64>) -> tensor<2x4x?xf64> {
  %0 = nabla.conv_general %x, %k groups = 1 : tensor<2x3x9xf64>, tensor<4x3x?xf64>
  return %0 : tensor<2x4x?xf64>
}

// A kernel larger than the input: no window.
// CHECK-LABEL: func.func @none
// CHECK: nabla.conv_general
func.func @none(%x: tensor<2x3x2xf32>, %k: tensor<4x3x3xf32>) -> tensor<2x4x0xf32> {
  %0 = nabla.conv_general %x, %k : tensor<2x3x2xf32>, tensor<4x3x3xf32>
  return %0 : tensor<2x4x0xf32>
}

// CHECK-LABEL: func.func @pools
// CHECK: nabla.pool max %{{.*}} window = [1, 2] strides = [1, 2] high = [0, 1] : tensor<?x8xui8>
// CHECK: nabla.pool avg %{{.*}} window = [2, 3] dilation = [1, 2] low = [1, 1] count_padding : tensor<5x8xbf16>
// LINALG-LABEL: func.func @pools
// LINALG: arith.maxui
// LINALG: arith.divf {{.*}} : f32
func.func @pools(%x: tensor<?x8xui8>, %y: tensor<5x8xbf16>) -> (tensor<?x4xui8>, tensor<5x5xbf16>) {
  %0 = nabla.pool max %x window = [1, 2] strides = [1, 2] high = [0, 1] : tensor<?x8xui8>
  %1 = nabla.pool avg %y window = [2, 3] dilation = [1, 2] low = [1, 1] count_padding : tensor<5x8xbf16>
  return %0, %1 : tensor<?x4xui8>, tensor<5x5xbf16>
}

// RULE-LABEL: func.func @splats
// RULE: nabla.conv_general %{{.*}}, %{{.*}} : tensor<1x3x5x5xf32>, tensor<4x3x3x3xf32>
// RULE: nabla.conv_general %{{.*}}, %{{.*}} low = [1, 1] : tensor<4x3x3x3xf32>, tensor<4x3x3x3xf32>
// RULE: nabla.pool sum %{{.*}} window = [1, 1, 3, 3] : tensor<4x3x3x3xf32>
func.func @splats(%x: tensor<1x3x5x5xf32>, %s: !half) -> (tensor<1x4x3x3xf32>, tensor<4x4x2x2xf32>, tensor<4x3x1x1xf32>) {
  %0 = nabla.conv_general %x, %s : tensor<1x3x5x5xf32>, !half
  %1 = nabla.conv_general %s, %s low = [1, 1] : !half, !half
  %2 = nabla.pool sum %s window = [1, 1, 3, 3] : !half
  return %0, %1, %2 : tensor<1x4x3x3xf32>, tensor<4x4x2x2xf32>, tensor<4x3x1x1xf32>
}

// Windows of the input are the rows that a packed kernel multiplies.
// RULE-LABEL: func.func @packed
// RULE: nabla.pad %arg0, %{{.*}} low = [0, 1, 0] high = [0, 0, 0] interior = [0, 0, 0] : tensor<?x9x8xf16>, tensor<f16>
// RULE: nabla.slice %{{.*}} starts = [0, 0, 0] limits = [-1, 9, -1] strides = [1, 2, 1]
// RULE: nabla.slice %{{.*}} starts = [0, 1, 0] limits = [-1, 10, -1] strides = [1, 2, 1]
// RULE: nabla.stack %{{.*}} dim = 3 : tensor<?x5x8xf16>, tensor<?x5x8xf16>
// RULE: nabla.fused_dot %{{.*}}, %{{.*}} : tensor<?x16xf16>, !nabla.implicit<4x16xf16, #nabla.nf4<block = 64>
// RULE-NOT: nabla.transpose
// RULE: return
func.func @packed(%x: tensor<?x9x8xf16>, %k: !nabla.implicit<4x8x2xf16, #nabla.nf4<block = 64>>) -> tensor<?x5x4xf16> {
  %0 = nabla.conv_general %x, %k strides = [2] low = [1] input_dims = [0, 2, 1] output_dims = [0, 2, 1] : tensor<?x9x8xf16>, !nabla.implicit<4x8x2xf16, #nabla.nf4<block = 64>>
  return %0 : tensor<?x5x4xf16>
}

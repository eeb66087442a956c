// A linear of tensors whose bias alone is packed: the bias is decoded, and the
// product is one of tensors all the same.
// RUN: nabla-opt "%s" --nabla-dispatch --nabla-fuse | FileCheck "%s"

// CHECK-LABEL: func.func @packed_bias
// CHECK: %[[B:.*]] = nabla.materialize %arg2
// CHECK: nabla.fused_dot %arg0, %arg1(%[[B]]) epilogue = ["bias"]
func.func @packed_bias(%x: tensor<?x64xf32>, %w: tensor<128x64xf32>,
                       %b: !nabla.implicit<128xf32, #nabla.nf4<block = 64>>) -> tensor<?x128xf32> {
  %y = nabla.linear %x, %w, %b : tensor<?x64xf32>, tensor<128x64xf32>, !nabla.implicit<128xf32, #nabla.nf4<block = 64>>
  return %y : tensor<?x128xf32>
}

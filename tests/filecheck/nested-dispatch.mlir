// What becomes of nested encodings and of lora: products stay fused on the
// codes, packed scales are decoded in front of the kernel and say so; a lora
// multiplies by its base and its factors.
// RUN: nabla-opt "%s" --split-input-file --nabla-dispatch=policy=error | FileCheck "%s"
// RUN: nabla-opt "%s" --split-input-file --nabla-dispatch --nabla-lower-implicit --nabla-lower-fused=features=avx --remarks-filter='nabla.*' -o "%t" 2>&1 | FileCheck "%s" --check-prefix=REMARK
// RUN: FileCheck "%s" --check-prefix=FUSED --input-file="%t"

!w = !nabla.implicit<32x64xf32, #nabla.int4<block = 16, scale = #nabla.dynamic8<block = 16>, zero_point = true>>

// CHECK-LABEL: func.func @nested
// CHECK-NOT: nabla.materialize
// CHECK: nabla.fused_dot %{{.*}}, %{{.*}} : tensor<?x64xf32>, !nabla.implicit<32x64xf32, #nabla.int4<block = 16, scale = #nabla.dynamic8<block = 16>, zero_point = true>>
// CHECK: nabla.fused_gather
//
// FUSED-LABEL: func.func @nested(
// FUSED-SAME: %arg1: tensor<1024xi8>{{.*}}, %arg2: tensor<128xi8>{{.*}}, %arg3: tensor<8xf32>{{.*}}, %arg4: tensor<f32>{{.*}}, %arg5: tensor<256xf32>{{.*}}, %arg6: tensor<128xi8>
// FUSED: call @nabla_fused_int4_b16_32x64_of2048_at0_64_1_F32_F32_scaledynamic8_zero_nested16_on_d_64(%arg0, %arg1, %arg2, %arg6, %arg3, %arg4, %arg5)
//
// REMARK: KernelChosen | Category:nabla-lower-fused | {{.*}}f32 numerics: kernel 'gemv_k_lanes' for M = 0..1, kernel 'gemm_fma' for M = 2 and more
func.func @nested(%x: tensor<?x64xf32>, %w: !w, %i: tensor<2x1xi64>) -> (tensor<?x32xf32>, tensor<2x64xf32>) {
  %0 = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x64xf32>, !w
  %1 = nabla.gather %w, %i offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 sizes = [1, 64] : !w, tensor<2x1xi64>
  return %0, %1 : tensor<?x32xf32>, tensor<2x64xf32>
}

// -----

!l = !nabla.implicit<32x64xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 4>>

// CHECK-LABEL: func.func @lora(
// CHECK-SAME: %[[X:[^:]*]]: tensor<3x64xf32>, %[[L:[^:]*]]: !nabla
// CHECK: %[[P:.*]]:3 = nabla.unpack %[[L]]
// CHECK: %[[Y:.*]] = nabla.fused_dot %[[X]], %[[P]]#0
// CHECK: %[[T:.*]] = nabla.dot_general %[[X]], %[[P]]#1 contracting = [1] x [1] : tensor<3x64xf32>, tensor<4x64xf32>
// CHECK: %[[U:.*]] = nabla.dot_general %[[T]], %[[P]]#2 contracting = [1] x [1] : tensor<3x4xf32>, tensor<32x4xf32>
// CHECK: %[[S:.*]] = nabla.add %[[Y]], %[[U]]
// CHECK: return %[[S]]
func.func @lora(%x: tensor<3x64xf32>, %w: !l) -> tensor<3x32xf32> {
  %0 = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<3x64xf32>, !l
  return %0 : tensor<3x32xf32>
}

// -----

!l = !nabla.implicit<32x64xf32, #nabla.lora<base = #nabla.lora<base = #nabla.nf4<block = 64>, rank = 2>, rank = 4>>

// An update of an update; from the left.
// CHECK-LABEL: func.func @twice
// CHECK: %[[P:.*]]:3 = nabla.unpack
// CHECK: %[[Q:.*]]:3 = nabla.unpack %[[P]]#0
// CHECK-COUNT-1: nabla.fused_dot
// CHECK-COUNT-4: nabla.dot_general
// CHECK-NOT: materialize
// CHECK: return
func.func @twice(%x: tensor<32x3xf32>, %w: !l) -> tensor<64x3xf32> {
  %0 = nabla.dot_general %w, %x contracting = [0] x [0] : !l, tensor<32x3xf32>
  return %0 : tensor<64x3xf32>
}

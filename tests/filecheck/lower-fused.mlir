// Each distinct fused operation becomes a kernel, and a call that spreads it
// over threads; what is not known to agree is checked before.
// RUN: nabla-opt "%s" --split-input-file --nabla-lower-fused=features=avx | FileCheck "%s"

!w = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>

// CHECK: func.func private @[[F:nabla_fused_nf4_b64_128x256[A-Za-z0-9_]*_on_d_256]](%arg0: tensor<?x256xf32>, %arg1: tensor<16384xi8> {bufferization.buffer_layout = strided<[1], offset: ?>}, %arg2: tensor<512xf32> {bufferization.buffer_layout = strided<[1], offset: ?>}) -> tensor<?x128xf32> {
// CHECK: %[[WORDS:.*]] = memref.alloca() : memref<24xi64>
// CHECK: %[[K256:.*]] = arith.constant 256 : i64
// CHECK: %[[WHERE:.*]] = llvm.mlir.addressof @nabla_where_fused_dot
// CHECK: %[[M:.*]] = tensor.dim %arg0, %c0
// CHECK-NOT: nabla_require_equal
// CHECK: %[[Y:.*]] = memref.alloc(%[[M]]) : memref<?x128xf32>
// CHECK: bufferization.to_buffer %arg0 read_only : tensor<?x256xf32>
// CHECK: bufferization.to_buffer %arg1 read_only : tensor<16384xi8> to memref<16384xi8, strided<[1], offset: ?>>
// CHECK: memref.extract_strided_metadata
// CHECK: %[[B:.*]] = bufferization.to_buffer %arg2 read_only : tensor<512xf32> to memref<512xf32, strided<[1], offset: ?>>
// CHECK: %[[A:.*]] = memref.extract_aligned_pointer_as_index %[[B]]
// CHECK: %{{.*}}, %[[O:[^,]*]], %{{.*}}, %{{.*}} = memref.extract_strided_metadata %[[B]]
// CHECK: %[[BYTES:.*]] = arith.muli %[[O]], %c4
// CHECK: arith.addi %[[A]], %[[BYTES]] : index
// The kernel for one row, and that for more.
// CHECK: %[[ONE:.*]] = llvm.mlir.addressof @[[K:nabla_fused_nf4_b64_128x256[A-Za-z0-9_]*_m0to1]] : !llvm.ptr
// CHECK: %[[IS:.*]] = arith.cmpi ule, %{{.*}}, %c1_i64 : i64
// CHECK: %[[MANY:.*]] = llvm.mlir.addressof @[[L:nabla_fused_nf4_b64_128x256[A-Za-z0-9_]*_m2]] : !llvm.ptr
// CHECK: %[[P:.*]] = arith.select %[[IS]], %[[ONE]], %[[MANY]] : !llvm.ptr
// The rows of x that the second one has put together, and nothing of w.
// CHECK: memref.alloc({{.*}}memref<?xi8>
// CHECK-NOT: memref.alloc
// CHECK: call @nabla_parallel(%[[P]], %{{.*}}, %{{.*}}, %{{.*}}) : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()
// CHECK: %[[T:.*]] = bufferization.to_tensor %[[Y]] restrict writable : memref<?x128xf32> to tensor<?x128xf32>
// CHECK: return %[[T]]
// CHECK-DAG: llvm.func internal @[[K]](%{{.*}}: !llvm.ptr, %{{.*}}: i64, %{{.*}}: i64) attributes {{{.*}}nabla.kernel
// CHECK-DAG: func.func private @nabla_parallel(!llvm.ptr, !llvm.ptr, i64, i64)
// CHECK-DAG: func.func private @nabla_require_equal(i64, i64, !llvm.ptr)
// CHECK-DAG: llvm.mlir.global internal constant @nabla_where_fused_dot("nabla.fused_dot\00")
// What takes addresses stays in that function: seen from here, x is read where
// the call stands.
// CHECK-LABEL: func.func @dynamic(
// CHECK-NOT: bufferization
// CHECK: %[[R:.*]] = call @[[F]](%arg0, %arg1, %arg2)
// CHECK-NEXT: return %[[R]]
// CHECK-NOT: = nabla.fused_dot
func.func @dynamic(%x: tensor<?x256xf32>, %c: tensor<16384xi8>, %s: tensor<512xf32>) -> tensor<?x128xf32> {
  %w = nabla.pack %c, %s : tensor<16384xi8>, tensor<512xf32> -> !w
  %y = nabla.fused_dot %x, %w : tensor<?x256xf32>, !w
  return %y : tensor<?x128xf32>
}

// -----

!w = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>

// Nothing is checked that the types say.
// CHECK-LABEL: func.func private @{{.*}}_on_4_256_128_4_128(
// CHECK-NOT: call @nabla_require_equal
// CHECK: memref.alloc() : memref<4x128xf32>
// CHECK-NOT: call @nabla_require_equal
// CHECK: return
func.func @known(%x: tensor<4x256xf32>, %c: tensor<16384xi8>, %s: tensor<512xf32>, %b: tensor<128xf32>, %r: tensor<4x128xf32>) -> tensor<4x128xf32> {
  %w = nabla.pack %c, %s : tensor<16384xi8>, tensor<512xf32> -> !w
  %y = nabla.fused_dot %x, %w(%b, %r) epilogue = ["bias", "silu", "add"] : tensor<4x256xf32>, !w, tensor<128xf32>, tensor<4x128xf32>
  return %y : tensor<4x128xf32>
}

// -----

!w = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>

// Each `?` is checked, before anything is allocated: K of x, the bias, both
// dimensions of the residual.
// CHECK-LABEL: func.func private @{{.*}}_on_d_d_d_d_d(
// CHECK-DAG: %[[N:.*]] = arith.constant 128 : i64
// CHECK-DAG: %[[K:.*]] = arith.constant 256 : i64
// CHECK: %[[MI:.*]] = tensor.dim %arg0, %c0 :
// CHECK: %[[M:.*]] = arith.index_cast %[[MI]]
// CHECK: call @nabla_require_equal(%{{.*}}, %[[K]], %{{.*}})
// CHECK: tensor.dim %arg3
// CHECK: call @nabla_require_equal(%{{.*}}, %[[N]], %{{.*}})
// CHECK: tensor.dim %arg4
// CHECK: call @nabla_require_equal(%{{.*}}, %[[M]], %{{.*}})
// CHECK: tensor.dim %arg4
// CHECK: call @nabla_require_equal(%{{.*}}, %[[N]], %{{.*}})
// CHECK: memref.alloc(%[[MI]])
func.func @unknown(%x: tensor<?x?xf32>, %c: tensor<16384xi8>, %s: tensor<512xf32>, %b: tensor<?xf32>, %r: tensor<?x?xf32>) -> tensor<?x128xf32> {
  %w = nabla.pack %c, %s : tensor<16384xi8>, tensor<512xf32> -> !w
  %y = nabla.fused_dot %x, %w(%b, %r) epilogue = ["bias", "silu", "add"] : tensor<?x?xf32>, !w, tensor<?xf32>, tensor<?x?xf32>
  return %y : tensor<?x128xf32>
}

// -----

!w = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>

// The residual's rows are checked where only x or only it knows them.
// CHECK-LABEL: func.func private @{{.*}}_on_d_256_4_128(
// CHECK-COUNT-1: call @nabla_require_equal
// CHECK-NOT: call @nabla_require_equal
// CHECK-LABEL: func.func private @{{.*}}_on_4_256_d_128(
// CHECK-COUNT-1: call @nabla_require_equal
// CHECK-NOT: call @nabla_require_equal
// CHECK-LABEL: func.func @half_known(
func.func @half_known(%x: tensor<4x256xf32>, %z: tensor<?x256xf32>, %c: tensor<16384xi8>, %s: tensor<512xf32>, %r: tensor<?x128xf32>, %q: tensor<4x128xf32>) -> (tensor<4x128xf32>, tensor<?x128xf32>) {
  %w = nabla.pack %c, %s : tensor<16384xi8>, tensor<512xf32> -> !w
  %0 = nabla.fused_dot %x, %w(%r) epilogue = ["add"] : tensor<4x256xf32>, !w, tensor<?x128xf32>
  %1 = nabla.fused_dot %z, %w(%q) epilogue = ["add"] : tensor<?x256xf32>, !w, tensor<4x128xf32>
  return %0, %1 : tensor<4x128xf32>, tensor<?x128xf32>
}

// -----

!w = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>
!v = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>, view<256x128, strides = [1, 128], offset = 0>>

// One kernel for equal operations, also of another function; another one for
// each view, epilogue and element type, and for ranges of M (with `prepare`).
// CHECK-COUNT-13: llvm.func internal @nabla_fused_
// CHECK-NOT: llvm.func
// CHECK-LABEL: func.func @first(
// CHECK: call @[[A:nabla_fused_.*_on_d_256]](
// CHECK: call @[[A]](
// CHECK: return
func.func @first(%x: tensor<?x256xf32>, %z: tensor<?x256xf32>, %c: tensor<16384xi8>, %s: tensor<512xf32>) -> (tensor<?x128xf32>, tensor<?x128xf32>) {
  %w = nabla.pack %c, %s : tensor<16384xi8>, tensor<512xf32> -> !w
  %0 = nabla.fused_dot %x, %w : tensor<?x256xf32>, !w
  %1 = nabla.fused_dot %z, %w : tensor<?x256xf32>, !w
  return %0, %1 : tensor<?x128xf32>, tensor<?x128xf32>
}
// CHECK-LABEL: func.func @second(
// CHECK: call @[[A]](
// CHECK-COUNT-5: call @nabla_fused_
func.func @second(%x: tensor<?x256xf32>, %h: tensor<?x256xf16>, %one: tensor<1x256xf32>, %four: tensor<4x256xf32>, %c: tensor<16384xi8>, %s: tensor<512xf32>) -> (tensor<?x128xf32>, tensor<?x128xf32>, tensor<?x128xf16>, tensor<?x128xf32>, tensor<1x128xf32>, tensor<4x128xf32>) {
  %w = nabla.pack %c, %s : tensor<16384xi8>, tensor<512xf32> -> !w
  %v = nabla.pack %c, %s : tensor<16384xi8>, tensor<512xf32> -> !v
  %0 = nabla.fused_dot %x, %w : tensor<?x256xf32>, !w
  %1 = nabla.fused_dot %x, %v : tensor<?x256xf32>, !v
  %2 = nabla.fused_dot %h, %w : tensor<?x256xf16>, !w
  %3 = nabla.fused_dot %x, %w epilogue = ["relu"] : tensor<?x256xf32>, !w
  %4 = nabla.fused_dot %one, %w : tensor<1x256xf32>, !w
  %5 = nabla.fused_dot %four, %w : tensor<4x256xf32>, !w
  return %0, %1, %2, %3, %4, %5 : tensor<?x128xf32>, tensor<?x128xf32>, tensor<?x128xf16>, tensor<?x128xf32>, tensor<1x128xf32>, tensor<4x128xf32>
}

// -----

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
!v = !nabla.implicit<64x8xf32, #nabla.nf4<block = 64>, view<8x64, strides = [1, 64], offset = 0>>

// Through a view to the components; the words are in a function of their own,
// not in the loop.
// CHECK: func.func private @[[F:nabla_fused_.*]](%arg0: tensor<4x8xf32>
// CHECK: memref.alloca() : memref<24xi64>
// CHECK-LABEL: func.func @loop(
// CHECK-NOT: memref.alloca
// CHECK: scf.for
// CHECK: func.call @[[F]](%arg0, %arg1, %arg2)
func.func @loop(%x: tensor<4x8xf32>, %c: tensor<256xi8>, %s: tensor<8xf32>, %n: index, %z: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %w = nabla.pack %c, %s : tensor<256xi8>, tensor<8xf32> -> !w
  %t = nabla.transpose %w permutation = [1, 0] : !w
  %l = scf.for %i = %n to %n step %n iter_args(%a = %z) -> (tensor<4x64xf32>) {
    %y = nabla.fused_dot %x, %t : tensor<4x8xf32>, !v
    scf.yield %y : tensor<4x64xf32>
  }
  return %l : tensor<4x64xf32>
}

// -----

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>

// A nested module has its own kernels.
// CHECK: module @inner
// CHECK: llvm.func internal @nabla_fused_
// CHECK: func.func @nested
module @inner {
  func.func @nested(%x: tensor<4x64xf32>, %c: tensor<256xi8>, %s: tensor<8xf32>) -> tensor<4x8xf32> {
    %w = nabla.pack %c, %s : tensor<256xi8>, tensor<8xf32> -> !w
    %y = nabla.fused_dot %x, %w : tensor<4x64xf32>, !w
    return %y : tensor<4x8xf32>
  }
}

// -----

// Must not fire: other products are left to nabla-to-linalg.
// CHECK-LABEL: func.func @dense
// CHECK-NEXT: nabla.dot_general
// CHECK-NEXT: return
// CHECK-NOT: nabla_parallel
func.func @dense(%x: tensor<4x64xf32>) -> tensor<4x4xf32> {
  %y = nabla.dot_general %x, %x contracting = [1] x [1] : tensor<4x64xf32>, tensor<4x64xf32>
  return %y : tensor<4x4xf32>
}

// -----

!w = !nabla.implicit<128x256xf32, #nabla.nf4<block = 64>>

// x that a kernel does not read as it lies is prepared, all of its rows, in a
// workspace as large as M asks for.
// CHECK: func.func private @nabla_fused_{{.*}}_on_d_256(
// CHECK: %[[MANY:.*]] = llvm.mlir.addressof @[[L:nabla_fused_nf4_b64_128x256[A-Za-z0-9_]*_m2]] : !llvm.ptr
// CHECK: llvm.mlir.addressof @[[L]]_prepare : !llvm.ptr
// CHECK: %[[BYTES:.*]] = arith.index_cast %{{.*}} : i64 to index
// CHECK: memref.alloc(%[[BYTES]]) {alignment = 64 : i64} : memref<?xi8>
// CHECK: %[[WHOLE:.*]] = arith.ori %{{.*}}, %c-9223372036854775808_i64 : i64
// CHECK: call @nabla_parallel(%{{.*}}, %{{.*}}, %{{.*}}, %[[WHOLE]]) : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()
// CHECK: call @nabla_parallel(
// CHECK: return
func.func @half(%h: tensor<?x256xf16>, %c: tensor<16384xi8>, %s: tensor<512xf32>) -> tensor<?x128xf16> {
  %w = nabla.pack %c, %s : tensor<16384xi8>, tensor<512xf32> -> !w
  %0 = nabla.fused_dot %h, %w : tensor<?x256xf16>, !w
  return %0 : tensor<?x128xf16>
}

// Calls around kernels, loops and copies; bytes are those of their buffers, of
// known and unknown sizes.
// RUN: nabla-opt "%s" --nabla-profile | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-profile=when=off | FileCheck "%s" --check-prefix=OFF
// RUN: not nabla-opt "%s" --nabla-profile=all=true 2>&1 | FileCheck "%s" --check-prefix=OPTION

// OFF-NOT: nabla_profile
// OFF-NOT: nabla_hold
// OPTION: no such option all

// The inside of a function around a kernel belongs to its call, but for the
// memory that it allocates.
// CHECK-LABEL: func.func private @around
// CHECK-NOT: call @nabla_profile
// CHECK: %[[Y:.*]] = memref.alloc
// CHECK: %[[P:.*]] = memref.extract_aligned_pointer_as_index %[[Y]]
// CHECK: call @nabla_hold(%{{.*}}, %{{.*}}, %{{.*}}) : (!llvm.ptr, i64, !llvm.ptr) -> ()
// CHECK-NOT: call @nabla_profile
// CHECK: return
func.func private @nabla_parallel(!llvm.ptr, !llvm.ptr, i64, i64)
func.func private @around(%x: memref<4x8xf32>, %w: memref<?x8xf32>) -> memref<4x?xf32> {
  %c0 = arith.constant 0 : index
  %n = memref.dim %w, %c0 : memref<?x8xf32>
  %y = memref.alloc(%n) : memref<4x?xf32>
  %p = llvm.mlir.zero : !llvm.ptr
  %i = arith.constant 1 : i64
  func.call @nabla_parallel(%p, %p, %i, %i) : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()
  return %y : memref<4x?xf32>
}

// CHECK-LABEL: func.func @one_of_each
func.func @one_of_each(%x: memref<4x8xf32>, %w: memref<?x8xf32>, %o: memref<4x8xbf16>, %to: memref<4x8xf32>) -> memref<4x?xf32> {
  // CHECK: %[[NAME:.*]] = llvm.mlir.addressof @nabla_profile_0
  // CHECK: call @nabla_profile(%[[NAME]],
  // CHECK: linalg.fill
  // CHECK: arith.constant 64 : index
  // CHECK: %[[NONE:.*]] = llvm.mlir.zero
  // CHECK: call @nabla_profile(%[[NONE]],
  %z = arith.constant 0.0 : bf16
  linalg.fill ins(%z : bf16) outs(%o : memref<4x8xbf16>)
  // CHECK: llvm.mlir.addressof @nabla_profile_1
  // CHECK: memref.copy
  // CHECK: call @nabla_profile
  memref.copy %x, %to : memref<4x8xf32> to memref<4x8xf32>
  // CHECK: llvm.mlir.addressof @nabla_profile_2
  // CHECK: %[[Y:.*]] = call @around
  // CHECK: memref.dim %[[Y]],
  // CHECK: call @nabla_profile
  %y = func.call @around(%x, %w) : (memref<4x8xf32>, memref<?x8xf32>) -> memref<4x?xf32> loc("nabla.fused_dot"("f.mlir":1:1))
  return %y : memref<4x?xf32>
}

// A loop is measured as one where nothing of it is, else what stands in it.
// CHECK-LABEL: func.func @loops
func.func @loops(%a: memref<8xf32>, %b: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  // CHECK: call @nabla_profile
  // CHECK: scf.for
  // CHECK-NOT: nabla_profile
  // CHECK: memref.store
  scf.for %i = %c0 to %c8 step %c1 {
    %v = memref.load %a[%i] : memref<8xf32>
    memref.store %v, %b[%i] : memref<8xf32>
  }
  // CHECK: call @nabla_profile
  // CHECK: scf.for
  // CHECK-NEXT: arith.constant
  // CHECK: call @nabla_profile
  // CHECK: memref.copy
  // CHECK: call @nabla_profile
  // CHECK: }
  scf.for %i = %c0 to %c8 step %c1 {
    memref.copy %a, %b : memref<8xf32> to memref<8xf32>
  }
  return
}

// Must not fire on what takes no time of its own.
// CHECK-LABEL: func.func @nothing
// CHECK-NOT: nabla_profile
// CHECK: return
func.func @nothing(%a: memref<8xf32>) -> memref<8xf32> {
  return %a : memref<8xf32>
}

// CHECK-DAG: @nabla_profile_0("loops of linalg.fill 4x8xbf16\00")
// CHECK-DAG: @nabla_profile_2("kernel nabla.fused_dot @around 4x?xf32\00")

// RUN: nabla-opt "%s" --nabla-lower-bf16 | FileCheck "%s"
// RUN: not nabla-opt "%s" --nabla-lower-bf16=bits=8 2>&1 | FileCheck "%s" --check-prefix=OPTION

// CHECK-LABEL: llvm.func @copy
// CHECK: %[[BITS:.*]] = llvm.load %{{.*}} {alignment = 2 : i64} : !llvm.ptr -> i16
// CHECK: llvm.bitcast %[[BITS]] : i16 to bf16
// CHECK: llvm.store %{{.*}}, %{{.*}} : i16, !llvm.ptr
// CHECK-NOT: -> bf16
llvm.func @copy(%a: !llvm.ptr, %b: !llvm.ptr) {
  %0 = llvm.load %a {alignment = 2 : i64} : !llvm.ptr -> bf16
  llvm.store %0, %b : bf16, !llvm.ptr
  llvm.return
}

// Must not fire on any other type.
// CHECK-LABEL: llvm.func @others
// CHECK: llvm.load %{{.*}} : !llvm.ptr -> f16
// CHECK: llvm.store %{{.*}}, %{{.*}} : f16, !llvm.ptr
llvm.func @others(%a: !llvm.ptr, %b: !llvm.ptr) {
  %0 = llvm.load %a : !llvm.ptr -> f16
  llvm.store %0, %b : f16, !llvm.ptr
  llvm.return
}

// OPTION: no such option bits

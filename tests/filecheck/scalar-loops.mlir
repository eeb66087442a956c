// RUN: nabla-opt "%s" --nabla-scalar-loops | FileCheck "%s"
// RUN: not nabla-opt "%s" --nabla-scalar-loops=all=true 2>&1 | FileCheck "%s" --check-prefix=OPTION

// Each addition doubles the paths to a value that is the same in all iterations.
// CHECK: #[[SCALAR:.*]] = #llvm.loop_vectorize<disable = true>
// CHECK: #[[MARK:.*]] = #llvm.loop_annotation<vectorize = #[[SCALAR]]>
// CHECK-LABEL: func.func @repeated
// CHECK: scf.for
// CHECK: } {loop_annotation = #[[MARK]]}
func.func @repeated(%a: memref<8xf64>, %b: memref<8xf64>, %n: index, %at: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.for %i = %zero to %n step %one {
    %u = memref.load %a[%at] : memref<8xf64>
    %u0 = arith.addf %u, %u : f64
    %u1 = arith.addf %u0, %u0 : f64
    %u2 = arith.addf %u1, %u1 : f64
    %u3 = arith.addf %u2, %u2 : f64
    %u4 = arith.addf %u3, %u3 : f64
    %u5 = arith.addf %u4, %u4 : f64
    %u6 = arith.addf %u5, %u5 : f64
    %u7 = arith.addf %u6, %u6 : f64
    %u8 = arith.addf %u7, %u7 : f64
    %u9 = arith.addf %u8, %u8 : f64
    %u10 = arith.addf %u9, %u9 : f64
    memref.store %u10, %b[%i] : memref<8xf64>
  }
  return
}

// Must not fire on values that differ, and where paths are few.
// CHECK-LABEL: func.func @others
// CHECK-NOT: loop_annotation
func.func @others(%a: memref<8xf64>, %b: memref<8xf64>, %n: index, %at: index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.for %i = %zero to %n step %one {
    %v = memref.load %a[%i] : memref<8xf64>
    %v0 = arith.addf %v, %v : f64
    %v1 = arith.addf %v0, %v0 : f64
    %v2 = arith.addf %v1, %v1 : f64
    %v3 = arith.addf %v2, %v2 : f64
    %v4 = arith.addf %v3, %v3 : f64
    %v5 = arith.addf %v4, %v4 : f64
    %v6 = arith.addf %v5, %v5 : f64
    %v7 = arith.addf %v6, %v6 : f64
    %v8 = arith.addf %v7, %v7 : f64
    %v9 = arith.addf %v8, %v8 : f64
    %v10 = arith.addf %v9, %v9 : f64
    memref.store %v10, %b[%i] : memref<8xf64>
  }
  scf.for %i = %zero to %n step %one {
    %w = memref.load %a[%at] : memref<8xf64>
    %w0 = arith.addf %w, %w : f64
    %w1 = arith.addf %w0, %w0 : f64
    %w2 = arith.addf %w1, %w1 : f64
    %w3 = arith.addf %w2, %w2 : f64
    %w4 = arith.addf %w3, %w3 : f64
    %w5 = arith.addf %w4, %w4 : f64
    %w6 = arith.addf %w5, %w5 : f64
    %w7 = arith.addf %w6, %w6 : f64
    memref.store %w7, %b[%i] : memref<8xf64>
  }
  return
}

// OPTION: no such option all

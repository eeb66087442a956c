// RUN: nabla-opt "%s" --ownership-based-buffer-deallocation --nabla-split-deallocs --split-input-file | FileCheck "%s"

// Each allocation is freed alone: also results of a private function, which are
// allocations of its own.
// CHECK-LABEL: func.func private @fresh
// CHECK: %[[A:.*]] = memref.alloc
// CHECK: %[[B:.*]] = memref.alloc
// CHECK-NOT: bufferization.dealloc
// CHECK: return %[[A]], %[[B]] : memref<?xf32>, memref<?xf32>
func.func private @fresh(%n: index) -> (memref<?xf32>, memref<?xf32>) {
  %a = memref.alloc(%n) : memref<?xf32>
  %b = memref.alloc(%n) : memref<?xf32>
  return %a, %b : memref<?xf32>, memref<?xf32>
}

// CHECK-LABEL: func.func @caller
// CHECK: %[[C:.*]]:2 = call @fresh
// CHECK-COUNT-3: bufferization.dealloc (%{{[^:, ]*}} : memref<f32>) if (%{{[^ ]*}})
// CHECK-NOT: bufferization.dealloc
// CHECK: return
func.func @caller(%n: index, %i: index) -> f32 {
  %c:2 = call @fresh(%n) : (index) -> (memref<?xf32>, memref<?xf32>)
  %d = memref.alloc(%n) : memref<?xf32>
  memref.copy %c#0, %d : memref<?xf32> to memref<?xf32>
  %x = memref.load %c#1[%i] : memref<?xf32>
  %y = memref.load %d[%i] : memref<?xf32>
  %z = arith.addf %x, %y : f32
  return %z : f32
}

// -----
// Two results are in one allocation: the caller frees it once.
// CHECK-LABEL: func.func private @twice
// CHECK: %[[A:.*]] = memref.alloc
// CHECK: return %[[A]], %[[A]] : memref<?xf32>, memref<?xf32>
func.func private @twice(%n: index) -> (memref<?xf32>, memref<?xf32>) {
  %a = memref.alloc(%n) : memref<?xf32>
  return %a, %a : memref<?xf32>, memref<?xf32>
}

// CHECK-LABEL: func.func @frees_once
// CHECK: bufferization.dealloc (%{{[^:, ]*}} : memref<f32>) if (%{{[^ ]*}})
// CHECK-NOT: bufferization.dealloc
// CHECK: return
func.func @frees_once(%n: index, %i: index) -> f32 {
  %c:2 = call @twice(%n) : (index) -> (memref<?xf32>, memref<?xf32>)
  %x = memref.load %c#0[%i] : memref<?xf32>
  %y = memref.load %c#1[%i] : memref<?xf32>
  %z = arith.addf %x, %y : f32
  return %z : f32
}

// -----
// A buffer that one of two branches made may be another one: they are compared
// when the program runs.
// CHECK-LABEL: func.func @branches
// CHECK: bufferization.dealloc (%{{.*}}, %{{.*}} : memref<f32>, memref<f32>)
func.func @branches(%n: index, %i: index, %which: i1) -> f32 {
  %a = memref.alloc(%n) : memref<?xf32>
  %b = scf.if %which -> memref<?xf32> {
    scf.yield %a : memref<?xf32>
  } else {
    %c = memref.alloc(%n) : memref<?xf32>
    scf.yield %c : memref<?xf32>
  }
  %x = memref.load %b[%i] : memref<?xf32>
  return %x : f32
}

// -----
// A result that may be an argument is no allocation.
// CHECK-LABEL: func.func private @given
func.func private @given(%a: memref<?xf32>, %n: index, %which: i1) -> memref<?xf32> {
  %b = scf.if %which -> memref<?xf32> {
    scf.yield %a : memref<?xf32>
  } else {
    %c = memref.alloc(%n) : memref<?xf32>
    scf.yield %c : memref<?xf32>
  }
  return %b : memref<?xf32>
}

// CHECK-LABEL: func.func @may_be_given
// CHECK: bufferization.dealloc (%{{.*}}, %{{.*}} : memref<f32>, memref<f32>)
func.func @may_be_given(%n: index, %i: index, %which: i1) -> f32 {
  %a = memref.alloc(%n) : memref<?xf32>
  %b = call @given(%a, %n, %which) : (memref<?xf32>, index, i1) -> memref<?xf32>
  %x = memref.load %b[%i] : memref<?xf32>
  return %x : f32
}

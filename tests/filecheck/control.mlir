// Operations with regions: what is printed is read back as the same.
// RUN: nabla-opt "%s" | nabla-opt | FileCheck "%s"
// RUN: nabla-opt "%s" --mlir-print-op-generic | nabla-opt | FileCheck "%s"

!w = !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>
!ws = !nabla.implicit<3x8x8xf32, #nabla.nf4<block = 64>>

// CHECK-LABEL: func.func @cond
// CHECK: nabla.cond %{{.*}} : tensor<i1> -> !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>, f32 {
// CHECK-NEXT: nabla.yield %{{.*}}, %{{.*}} : !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>, f32
// CHECK-NEXT: }, {
// CHECK-NEXT: nabla.yield
// CHECK-NEXT: }
// CHECK: nabla.cond %{{.*}} : index {
// CHECK-NEXT: nabla.yield
// CHECK-NEXT: }
func.func @cond(%p: tensor<i1>, %n: index, %a: !w, %b: !w, %f: f32) -> !w {
  %0:2 = nabla.cond %p : tensor<i1> -> !w, f32 {
    nabla.yield %a, %f : !w, f32
  }, {
    nabla.yield %b, %f : !w, f32
  }
  nabla.cond %n : index {
    nabla.yield
  }
  return %0#0 : !w
}

// CHECK-LABEL: func.func @while
// CHECK: nabla.while(%{{.*}}, %{{.*}}) : !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>, i32 attributes {test.a} cond {
// CHECK-NEXT: ^bb0(%[[A:[^:]*]]: !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>, %[[B:[^:]*]]: i32):
// CHECK-NEXT: nabla.condition %{{.*}}, %[[A]], %[[B]] : tensor<i1>, !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>, i32
// CHECK-NEXT: } do {
// CHECK: nabla.yield
// CHECK: nabla.while cond {
// CHECK-NEXT: nabla.condition %{{.*}} : tensor<i1>
// CHECK-NEXT: } do {
// CHECK-NEXT: nabla.yield
func.func @while(%p: tensor<i1>, %w: !w, %n: i32) -> !w {
  %0:2 = nabla.while(%w, %n) : !w, i32 attributes {test.a} cond {
  ^bb0(%a: !w, %b: i32):
    nabla.condition %p, %a, %b : tensor<i1>, !w, i32
  } do {
  ^bb0(%a: !w, %b: i32):
    nabla.yield %a, %b : !w, i32
  }
  nabla.while cond {
    nabla.condition %p : tensor<i1>
  } do {
    nabla.yield
  }
  return %0#0 : !w
}

// CHECK-LABEL: func.func @scan
// CHECK: nabla.scan init(%{{.*}}, %{{.*}} : !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>, tensor<?xf32>) over(%{{.*}}, %{{.*}} : !nabla.implicit<3x8x8xf32, #nabla.nf4<block = 64>>, tensor<?x?xf32>) sizes(%{{.*}}) reverse -> !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>, tensor<?xf32>, tensor<3x?xf32>, !nabla.implicit<3x8x8xf32, #nabla.nf4<block = 64>> {
// CHECK: nabla.scan init(%{{.*}} : tensor<?xf32>) length(%{{.*}}) attributes {test.a} -> tensor<?xf32> {
func.func @scan(%w: !w, %ws: !ws, %h: tensor<?xf32>, %x: tensor<?x?xf32>, %n: index) -> tensor<?xf32> {
  %0:4 = nabla.scan init(%w, %h : !w, tensor<?xf32>) over(%ws, %x : !ws, tensor<?x?xf32>) sizes(%n) reverse -> !w, tensor<?xf32>, tensor<3x?xf32>, !ws {
  ^bb0(%a: !w, %b: tensor<?xf32>, %c: !w, %d: tensor<?xf32>):
    nabla.yield %c, %d, %b, %a : !w, tensor<?xf32>, tensor<?xf32>, !w
  }
  %1 = nabla.scan init(%0#1 : tensor<?xf32>) length(%n) attributes {test.a} -> tensor<?xf32> {
  ^bb0(%a: tensor<?xf32>):
    nabla.yield %a : tensor<?xf32>
  }
  return %1 : tensor<?xf32>
}

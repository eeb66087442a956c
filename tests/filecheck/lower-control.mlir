// cond, while and scan become scf, with their bodies; implicit values stay whole
// until nabla-lower-implicit.
// RUN: nabla-opt "%s" --split-input-file --nabla-lower-control | FileCheck "%s"

!w = !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>
!ws = !nabla.implicit<3x8x8xf32, #nabla.nf4<block = 64>>

// CHECK-LABEL: func.func @if
// CHECK-SAME: (%[[P:[^:]*]]: tensor<i1>,
// CHECK: %[[E:.*]] = tensor.extract %[[P]][] : tensor<i1>
// CHECK: %[[R:.*]] = scf.if %[[E]] -> (!nabla.implicit
// CHECK-NEXT: scf.yield
// CHECK-NEXT: } else {
// CHECK-NEXT: nabla.quantize
// CHECK-NEXT: scf.yield
// CHECK: return %[[R]]
func.func @if(%p: tensor<i1>, %w: !w, %x: tensor<8x8xf32>) -> !w {
  %0 = nabla.cond %p : tensor<i1> -> !w {
    nabla.yield %w : !w
  }, {
    %q = nabla.quantize %x : tensor<8x8xf32> -> !w
    nabla.yield %q : !w
  }
  return %0 : !w
}

// Any other number is the last branch.
// CHECK-LABEL: func.func @switch
// CHECK: %[[N:.*]] = arith.index_cast %{{.*}} : i64 to index
// CHECK: scf.index_switch %[[N]] -> f32
// CHECK-NEXT: case 0 {
// CHECK-NEXT: scf.yield %[[A:.*]] : f32
// CHECK: case 1 {
// CHECK-NEXT: scf.yield %[[B:.*]] : f32
// CHECK: default {
// CHECK-NEXT: arith.addf %[[A]], %[[B]]
// CHECK: scf.index_switch %{{.*}}
// CHECK-NEXT: default {
func.func @switch(%n: i64, %a: f32, %b: f32) -> f32 {
  %0 = nabla.cond %n : i64 -> f32 {
    nabla.yield %a : f32
  }, {
    nabla.yield %b : f32
  }, {
    %c = arith.addf %a, %b : f32
    nabla.yield %c : f32
  }
  %i = arith.index_cast %n : i64 to index
  %1 = nabla.cond %i : index -> f32 {
    nabla.yield %0 : f32
  }
  return %1 : f32
}

// CHECK-LABEL: func.func @while
// CHECK: scf.while (%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}) : (!nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>, tensor<i1>) -> (!nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>, tensor<i1>) {
// CHECK-NEXT: %[[E:.*]] = tensor.extract %[[B]][]
// CHECK-NEXT: scf.condition(%[[E]]) %[[A]], %[[B]]
// CHECK: } do {
// CHECK: scf.yield
func.func @while(%w: !w, %p: tensor<i1>, %q: tensor<i1>) -> !w {
  %0:2 = nabla.while(%w, %p) : !w, tensor<i1> cond {
  ^bb0(%a: !w, %b: tensor<i1>):
    nabla.condition %b, %a, %b : tensor<i1>, !w, tensor<i1>
  } do {
  ^bb0(%a: !w, %b: tensor<i1>):
    nabla.yield %a, %q : !w, tensor<i1>
  }
  return %0#0 : !w
}

// -----

!w = !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>
!ws = !nabla.implicit<3x8x8xf32, #nabla.nf4<block = 64>>

// Slices of a packed input are parts of its components; so are those of a
// packed output. Lengths that are known to agree are not checked.
// CHECK-LABEL: func.func @packed
// CHECK-SAME: (%[[WS:[^:]*]]: !nabla.implicit<3x8x8xf32,
// CHECK-DAG: %[[N:.*]] = arith.constant 3 : index
// CHECK-DAG: %[[U:.*]]:2 = nabla.unpack %[[WS]]
// CHECK-DAG: tensor.empty() : tensor<96xi8>
// CHECK-DAG: tensor.empty() : tensor<3xf32>
// CHECK-NOT: nabla_require_equal
// CHECK: %[[F:.*]]:3 = scf.for %[[I:.*]] = %{{.*}} to %[[N]] {{.*}} -> (!nabla.implicit<8x8xf32, #nabla.nf4<block = 64>>, tensor<96xi8>, tensor<3xf32>)
// CHECK: %[[L:.*]] = arith.subi %[[N]], %{{.*}} : index
// CHECK: %[[R:.*]] = arith.subi %[[L]], %[[I]] : index
// CHECK: %[[O:.*]] = arith.muli %[[R]], %c32
// CHECK: tensor.extract_slice %[[U]]#0[%[[O]]] [32] [1] : tensor<96xi8> to tensor<32xi8>
// CHECK: tensor.extract_slice %[[U]]#1[%{{.*}}] [1] [1] : tensor<3xf32> to tensor<1xf32>
// CHECK: %[[W:.*]] = nabla.pack
// CHECK: nabla.transpose %[[W]]
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}} [32] [1] : tensor<32xi8> into tensor<96xi8>
// CHECK: scf.yield %[[W]],
// CHECK: %[[P:.*]] = nabla.pack %[[F]]#1, %[[F]]#2 : tensor<96xi8>, tensor<3xf32> -> !nabla.implicit<3x8x8xf32
// CHECK: return %[[F]]#0, %[[P]]
func.func @packed(%ws: !ws, %w: !w) -> (!w, !ws) {
  %0:2 = nabla.scan init(%w : !w) over(%ws : !ws) reverse -> !w, !ws {
  ^bb0(%a: !w, %b: !w):
    %t = nabla.transpose %b permutation = [1, 0] : !w
    %r = nabla.transpose %t permutation = [1, 0] : !nabla.implicit<8x8xf32, #nabla.nf4<block = 64>, view<8x8, strides = [1, 8], offset = 0>>
    nabla.yield %b, %r : !w, !w
  }
  return %0#0, %0#1 : !w, !ws
}

// A constant has nothing to be sliced.
// CHECK-LABEL: func.func @splat
// CHECK: scf.for
// CHECK-NOT: tensor.extract_slice
// CHECK: nabla.pack -> !nabla.implicit<4xf32, #nabla.splat<2.000000e+00 : f32>>
// CHECK: return
func.func @splat(%s: !nabla.implicit<3x4xf32, #nabla.splat<2.0 : f32>>) -> tensor<3x4xf32> {
  %0 = nabla.scan over(%s : !nabla.implicit<3x4xf32, #nabla.splat<2.0 : f32>>) -> tensor<3x4xf32> {
  ^bb0(%a: !nabla.implicit<4xf32, #nabla.splat<2.0 : f32>>):
    %d = nabla.materialize %a : !nabla.implicit<4xf32, #nabla.splat<2.0 : f32>>
    nabla.yield %d : tensor<4xf32>
  }
  return %0 : tensor<3x4xf32>
}

// Lengths and sizes that are not known are checked: the lengths of inputs, that
// of a result, and in each step the size of what is stacked.
// CHECK-LABEL: func.func @checks
// CHECK: %[[D:.*]] = tensor.dim %arg0
// CHECK: tensor.dim %arg1
// CHECK: call @nabla_require_equal
// CHECK: call @nabla_require_equal
// CHECK: call @nabla_require_equal
// CHECK: tensor.empty(%arg2) : tensor<3x?xf32>
// CHECK: scf.for %{{.*}} = %{{.*}} to %[[D]] step
// CHECK: tensor.extract_slice %arg0[%{{.*}}, 0] [1, %{{.*}}] [1, 1] : tensor<?x?xf32> to tensor<?xf32>
// CHECK: tensor.extract_slice %arg1[%{{.*}}] [1] [1] : tensor<?xf32> to tensor<f32>
// CHECK: call @nabla_require_equal
// CHECK: tensor.insert_slice %{{.*}} into %{{.*}}[%{{.*}}, 0] [1, %arg2] [1, 1] : tensor<?xf32> into tensor<3x?xf32>
func.func @checks(%x: tensor<?x?xf32>, %y: tensor<?xf32>, %n: index) -> tensor<3x?xf32> {
  %0 = nabla.scan over(%x, %y : tensor<?x?xf32>, tensor<?xf32>) sizes(%n) -> tensor<3x?xf32> {
  ^bb0(%a: tensor<?xf32>, %b: tensor<f32>):
    nabla.yield %a : tensor<?xf32>
  }
  return %0 : tensor<3x?xf32>
}

// One in the other, from the inside.
// CHECK-LABEL: func.func @nested
// CHECK: scf.for
// CHECK: scf.while
// CHECK: scf.for
// CHECK: scf.if
// CHECK-NOT: nabla.{{cond|while|scan|yield|condition}}
// CHECK: return
func.func @nested(%x: tensor<?x4xf32>, %p: i1, %n: index) -> tensor<4xf32> {
  %z = nabla.constant dense<0.0> : tensor<4xf32>
  %0 = nabla.scan init(%z : tensor<4xf32>) over(%x : tensor<?x4xf32>) -> tensor<4xf32> {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %1 = nabla.while(%b) : tensor<4xf32> cond {
    ^bb0(%c: tensor<4xf32>):
      nabla.condition %p, %c : i1, tensor<4xf32>
    } do {
    ^bb0(%c: tensor<4xf32>):
      %2 = nabla.scan init(%a : tensor<4xf32>) length(%n) -> tensor<4xf32> {
      ^bb0(%d: tensor<4xf32>):
        %3 = nabla.cond %p : i1 -> tensor<4xf32> {
          nabla.yield %c : tensor<4xf32>
        }, {
          nabla.yield %d : tensor<4xf32>
        }
        nabla.yield %3 : tensor<4xf32>
      }
      nabla.yield %2 : tensor<4xf32>
    }
    nabla.yield %1 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// -----

// Slices of views, each seen as the whole is: transposed, of fewer dimensions,
// a part of each row. The same parts of the components.
!t = !nabla.implicit<3x8x16xf32, #nabla.nf4<block = 64>, view<3x16x8, strides = [128, 1, 8], offset = 0>>
!ts = !nabla.implicit<8x16xf32, #nabla.nf4<block = 64>, view<16x8, strides = [1, 8], offset = 0>>
!r = !nabla.implicit<3x4x16xf32, #nabla.nf4<block = 64>, view<12x16, strides = [64, 16, 1], offset = 0>>
!rs = !nabla.implicit<4x16xf32, #nabla.nf4<block = 64>>
!p = !nabla.implicit<3x4x8xf32, #nabla.nf4<block = 64>, view<3x4x16, strides = [64, 16, 1], offset = 4>>
!ps = !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>, view<4x16, strides = [16, 1], offset = 4>>

// CHECK-LABEL: func.func @views
// CHECK: tensor.extract_slice %{{.*}}[%{{.*}}] [64] [1] : tensor<192xi8> to tensor<64xi8>
// CHECK: tensor.extract_slice %{{.*}}[%{{.*}}] [2] [1] : tensor<6xf32> to tensor<2xf32>
// CHECK: nabla.pack {{.*}} -> !nabla.implicit<8x16xf32, #nabla.nf4<block = 64>, view<16x8, strides = [1, 8], offset = 0>>
// CHECK: tensor.extract_slice %{{.*}}[%{{.*}}] [32] [1] : tensor<96xi8> to tensor<32xi8>
// CHECK: nabla.pack {{.*}} -> !nabla.implicit<4x16xf32, #nabla.nf4<block = 64>>
// CHECK: tensor.extract_slice %{{.*}}[%{{.*}}] [32] [1] : tensor<96xi8> to tensor<32xi8>
// CHECK: nabla.pack {{.*}} -> !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>, view<4x16, strides = [16, 1], offset = 4>>
func.func @views(%t: !t, %r: !r, %p: !p) -> (!t, !r, !p) {
  %0:3 = nabla.scan over(%t, %r, %p : !t, !r, !p) -> !t, !r, !p {
  ^bb0(%a: !ts, %b: !rs, %c: !ps):
    nabla.yield %a, %b, %c : !ts, !rs, !ps
  }
  return %0#0, %0#1, %0#2 : !t, !r, !p
}

// A cast of the program's own is not taken for a scan's body, before or behind.
// CHECK-LABEL: func.func @marked
// CHECK: builtin.unrealized_conversion_cast %{{.*}} {nabla.body}
// CHECK: scf.for
// CHECK: nabla.add
// CHECK: builtin.unrealized_conversion_cast %{{.*}} {nabla.body}
func.func @marked(%x: tensor<4xf32>, %a: tensor<f32>) -> (tensor<f32>, i64, i32) {
  %i = arith.constant 3 : index
  %k = builtin.unrealized_conversion_cast %i : index to i64 {nabla.body}
  %s = nabla.scan init(%a : tensor<f32>) over(%x : tensor<4xf32>) -> tensor<f32> {
  ^bb0(%c: tensor<f32>, %e: tensor<f32>):
    %d = nabla.add %c, %e : tensor<f32>, tensor<f32>
    nabla.yield %d : tensor<f32>
  }
  %l = builtin.unrealized_conversion_cast %i : index to i32 {nabla.body}
  return %s, %k, %l : tensor<f32>, i64, i32
}

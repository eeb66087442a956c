// Implicit values are split into components at functions, calls and regions;
// inside, nabla.pack makes them whole where something uses them.
// RUN: nabla-opt "%s" --split-input-file --nabla-lower-implicit | FileCheck "%s"

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
!v = !nabla.implicit<64x8xf32, #nabla.nf4<block = 64>, view<8x64, strides = [1, 64], offset = 0>>
!s = !nabla.implicit<4xf32, #nabla.splat<2.0 : f32>>

// Arguments: components in the place of the whole, which keep its attributes
// and are never written; a splat has none.
// CHECK-LABEL: func.func @arguments
// CHECK-SAME: (%[[X:.*]]: tensor<?x64xf32> {bufferization.writable = false, nabla.name = "x"},
// CHECK-SAME: %[[C:.*]]: tensor<256xi8> {bufferization.writable = false, nabla.name = "w"},
// CHECK-SAME: %[[S:.*]]: tensor<8xf32> {bufferization.writable = false, nabla.name = "w"},
// CHECK-SAME: %{{.*}}: f32 {test.last}) -> tensor<?x8xf32>
// CHECK-NEXT: %[[W:.*]] = nabla.pack %[[C]], %[[S]] : tensor<256xi8>, tensor<8xf32> -> !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
// CHECK-NEXT: nabla.fused_dot %[[X]], %[[W]]
func.func @arguments(%x: tensor<?x64xf32> {nabla.name = "x"}, %s: !s {nabla.name = "s"}, %w: !w {nabla.name = "w"}, %f: f32 {test.last}) -> tensor<?x8xf32> {
  %y = nabla.fused_dot %x, %w : tensor<?x64xf32>, !w
  return %y : tensor<?x8xf32>
}

// Results, also of what is only passed through: no pack is left behind.
// CHECK-LABEL: func.func @results
// CHECK-SAME: (%[[C:.*]]: tensor<256xi8> {{.*}}, %[[S:.*]]: tensor<8xf32> {{.*}}) -> (tensor<256xi8> {test.r}, tensor<8xf32> {test.r}, f32) {
// CHECK-NEXT: %[[F:.*]] = arith.constant
// CHECK-NEXT: return %[[C]], %[[S]], %[[F]] : tensor<256xi8>, tensor<8xf32>, f32
func.func @results(%w: !w) -> (!w {test.r}, f32) {
  %f = arith.constant 1.0 : f32
  return %w, %f : !w, f32
}

// A view's components are those of its storage.
// CHECK-LABEL: func.func @view
// CHECK-SAME: (%[[C:.*]]: tensor<256xi8> {{.*}}, %[[S:.*]]: tensor<8xf32> {{.*}}) -> (tensor<256xi8>, tensor<8xf32>) {
// CHECK-NEXT: return %[[C]], %[[S]]
func.func @view(%w: !w) -> !v {
  %t = nabla.transpose %w permutation = [1, 0] : !w
  return %t : !v
}

// CHECK-LABEL: func.func @view_argument
// CHECK: nabla.pack %{{.*}}, %{{.*}} : tensor<256xi8>, tensor<8xf32> -> !nabla.implicit<64x8xf32, #nabla.nf4<block = 64>, view<8x64, strides = [1, 64], offset = 0>>
func.func @view_argument(%w: !v) -> tensor<64x8xf32> {
  %d = nabla.materialize %w : !v
  return %d : tensor<64x8xf32>
}

// What an op makes is taken apart.
// CHECK-LABEL: func.func @made_here
// CHECK: %[[Q:.*]] = nabla.quantize
// CHECK: %[[U:.*]]:2 = nabla.unpack %[[Q]]
// CHECK: return %[[U]]#0, %[[U]]#1
func.func @made_here(%x: tensor<8x64xf32>) -> !w {
  %q = nabla.quantize %x : tensor<8x64xf32> -> !w
  return %q : !w
}

// CHECK-LABEL: func.func private @outside(tensor<256xi8>, tensor<8xf32>, f32) -> (tensor<256xi8>, tensor<8xf32>)
func.func private @outside(!w, !s, f32) -> (!w, !s)

// CHECK-LABEL: func.func @calls
// CHECK-SAME: (%[[C:.*]]: tensor<256xi8> {{.*}}, %[[S:.*]]: tensor<8xf32> {{.*}}, %[[F:.*]]: f32)
// CHECK-NEXT: %[[R:.*]]:2 = call @outside(%[[C]], %[[S]], %[[F]]) : (tensor<256xi8>, tensor<8xf32>, f32) -> (tensor<256xi8>, tensor<8xf32>)
// CHECK-NEXT: %[[P:.*]] = nabla.pack %[[R]]#0, %[[R]]#1
// CHECK-NEXT: nabla.materialize %[[P]]
func.func @calls(%w: !w, %s: !s, %f: f32) -> tensor<8x64xf32> {
  %0:2 = call @outside(%w, %s, %f) : (!w, !s, f32) -> (!w, !s)
  %1 = nabla.materialize %0#0 : !w
  return %1 : tensor<8x64xf32>
}

// -----

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>

// Loops carry components as buffers, which are handed on as they are.
// CHECK-LABEL: func.func @carried
// CHECK-SAME: (%[[C:.*]]: tensor<256xi8> {{.*}}, %[[S:.*]]: tensor<8xf32>
// CHECK: %[[CB:.*]] = bufferization.to_buffer %[[C]] read_only : tensor<256xi8> to memref<256xi8, strided<[1], offset: ?>>
// CHECK: %[[SB:.*]] = bufferization.to_buffer %[[S]] read_only : tensor<8xf32> to memref<8xf32, strided<[1], offset: ?>>
// CHECK: %[[R:.*]]:3 = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[CI:.*]] = %[[CB]], %[[SI:.*]] = %[[SB]]) -> (f32, memref<256xi8, strided<[1], offset: ?>>, memref<8xf32, strided<[1], offset: ?>>) {
// CHECK: %[[CT:.*]] = bufferization.to_tensor %[[CI]] restrict
// CHECK: %[[CO:.*]] = bufferization.to_buffer %[[CT]] read_only
// CHECK: scf.yield %{{.*}}, %[[CO]], %{{.*}} : f32, memref<256xi8, strided<[1], offset: ?>>, memref<8xf32, strided<[1], offset: ?>>
// CHECK-DAG: %[[RC:.*]] = bufferization.to_tensor %[[R]]#1 restrict
// CHECK-DAG: %[[RS:.*]] = bufferization.to_tensor %[[R]]#2 restrict
// CHECK: return %[[RC]], %[[RS]]
func.func @carried(%w: !w, %a: index, %b: index, %c: index, %f: f32) -> !w {
  %0:2 = scf.for %i = %a to %b step %c iter_args(%g = %f, %v = %w) -> (f32, !w) {
    scf.yield %g, %v : f32, !w
  }
  return %0#1 : !w
}

// CHECK-LABEL: func.func @chosen
// CHECK: %[[R:.*]]:2 = scf.if %{{.*}} -> (tensor<256xi8>, tensor<8xf32>) {
// CHECK-NEXT: scf.yield %{{.*}}, %{{.*}} : tensor<256xi8>, tensor<8xf32>
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %{{.*}}, %{{.*}} : tensor<256xi8>, tensor<8xf32>
// CHECK: %[[P:.*]] = nabla.pack %[[R]]#0, %[[R]]#1
// CHECK: nabla.fused_dot %{{.*}}, %[[P]]
func.func @chosen(%x: tensor<?x64xf32>, %w: !w, %v: !w, %b: i1) -> tensor<?x8xf32> {
  %0 = scf.if %b -> (!w) {
    scf.yield %w : !w
  } else {
    scf.yield %v : !w
  }
  %y = nabla.fused_dot %x, %0 : tensor<?x64xf32>, !w
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: func.func @while
// CHECK: scf.while (%[[A:[^ ]*]] = %{{.*}}, %[[B:[^ ]*]] = %{{.*}}) : (memref<256xi8, strided<[1], offset: ?>>, memref<8xf32, strided<[1], offset: ?>>) -> (memref<256xi8, strided<[1], offset: ?>>, memref<8xf32, strided<[1], offset: ?>>) {
// CHECK: %[[T:.*]] = bufferization.to_tensor %[[A]] restrict
// CHECK: %[[O:.*]] = bufferization.to_buffer %[[T]] read_only
// CHECK: scf.condition(%{{.*}}) %[[O]], %{{.*}} : memref<256xi8, strided<[1], offset: ?>>, memref<8xf32, strided<[1], offset: ?>>
// CHECK: ^bb0(%[[D:[^:]*]]: memref<256xi8, strided<[1], offset: ?>>, %{{.*}}: memref<8xf32, strided<[1], offset: ?>>):
// CHECK: scf.yield %{{.*}}, %{{.*}} : memref<256xi8, strided<[1], offset: ?>>, memref<8xf32, strided<[1], offset: ?>>
func.func @while(%w: !w, %b: i1) -> !w {
  %0 = scf.while (%v = %w) : (!w) -> !w {
    scf.condition(%b) %v : !w
  } do {
  ^bb0(%v: !w):
    scf.yield %v : !w
  }
  return %0 : !w
}

// CHECK-LABEL: func.func @switched
// CHECK: scf.index_switch %{{.*}} -> tensor<256xi8>, tensor<8xf32>
// CHECK: case 0 {
// CHECK-NEXT: scf.yield %{{.*}}, %{{.*}} : tensor<256xi8>, tensor<8xf32>
// CHECK: default {
// CHECK-NEXT: scf.yield %{{.*}}, %{{.*}} : tensor<256xi8>, tensor<8xf32>
func.func @switched(%w: !w, %v: !w, %n: index) -> !w {
  %0 = scf.index_switch %n -> !w
  case 0 {
    scf.yield %w : !w
  }
  default {
    scf.yield %v : !w
  }
  return %0 : !w
}

// What a private function is given may begin within another buffer.
// CHECK-LABEL: func.func private @inner
// CHECK-SAME: (%{{.*}}: f32, %{{.*}}: tensor<256xi8> {bufferization.buffer_layout = strided<[1], offset: ?>, bufferization.writable = false}, %{{.*}}: tensor<8xf32> {bufferization.buffer_layout = strided<[1], offset: ?>, bufferization.writable = false}, %{{.*}}: tensor<4xf32> {bufferization.writable = false})
func.func private @inner(%f: f32, %w: !w, %x: tensor<4xf32>) -> tensor<8x64xf32> {
  %d = nabla.materialize %w : !w
  return %d : tensor<8x64xf32>
}

// One inside of another, and a call in the middle.
// CHECK-LABEL: func.func @nested
// CHECK: scf.for {{.*}} -> (memref<256xi8, strided<[1], offset: ?>>, memref<8xf32, strided<[1], offset: ?>>) {
// CHECK: scf.if {{.*}} -> (tensor<256xi8>, tensor<8xf32>) {
// CHECK: call @nested({{.*}} : (tensor<256xi8>, tensor<8xf32>, index, i1) -> (tensor<256xi8>, tensor<8xf32>)
func.func @nested(%w: !w, %n: index, %b: i1) -> !w {
  %0 = scf.for %i = %n to %n step %n iter_args(%v = %w) -> (!w) {
    %1 = scf.if %b -> (!w) {
      %2 = func.call @nested(%v, %n, %b) : (!w, index, i1) -> !w
      scf.yield %2 : !w
    } else {
      scf.yield %v : !w
    }
    scf.yield %1 : !w
  }
  return %0 : !w
}

// What may be written is copied before a loop reads it as a buffer: a tensor of
// the program, a quantized value: another one may be computed in its memory.
// CHECK-LABEL: func.func @written
// CHECK: %[[Q:.*]] = nabla.quantize
// CHECK: %[[U:.*]]:2 = nabla.unpack %[[Q]]
// CHECK: tensor.insert
// CHECK: %[[P:.*]] = nabla.quantize
// CHECK: bufferization.alloc_tensor() copy(%arg0) : tensor<256xi8>
// CHECK: bufferization.alloc_tensor() copy(%{{.*}}) : tensor<256xi8>
// CHECK: %[[V:.*]]:2 = nabla.unpack %[[P]]
// CHECK: %[[V0:.*]] = bufferization.alloc_tensor() copy(%[[V]]#0) : tensor<256xi8>
// CHECK: bufferization.to_buffer %[[V0]] read_only
// CHECK: %[[V1:.*]] = bufferization.alloc_tensor() copy(%[[V]]#1) : tensor<8xf32>
// CHECK: bufferization.to_buffer %[[V1]] read_only
// CHECK: scf.for
func.func @written(%c: tensor<256xi8>, %s: tensor<8xf32>, %x: tensor<8x64xf32>, %n: index, %i: i8) -> (!w, tensor<256xi8>) {
  %a = nabla.pack %c, %s : tensor<256xi8>, tensor<8xf32> -> !w
  %q = nabla.quantize %x : tensor<8x64xf32> -> !w
  %u:2 = nabla.unpack %q : !w
  %t = tensor.insert %i into %u#0[%n] : tensor<256xi8>
  %p = nabla.quantize %x : tensor<8x64xf32> -> !w
  %r:3 = scf.for %j = %n to %n step %n iter_args(%v = %a, %y = %q, %z = %p) -> (!w, !w, !w) {
    scf.yield %y, %z, %v : !w, !w, !w
  }
  return %r#0, %t : !w, tensor<256xi8>
}

// Must not fire: nothing implicit.
// CHECK-LABEL: func.func @dense
// CHECK-SAME: (%{{.*}}: tensor<4xf32>, %{{.*}}: f32 {test.a}) -> tensor<4xf32> {
func.func @dense(%x: tensor<4xf32>, %f: f32 {test.a}) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>

// Also outside of functions, where a body has no last op.
// CHECK: func.func private @give() -> (tensor<256xi8>, tensor<8xf32>)
// CHECK: call @give() : () -> (tensor<256xi8>, tensor<8xf32>)
func.func private @give() -> !w
%0 = func.call @give() : () -> !w

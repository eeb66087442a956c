// A kernel writes a state itself, instead of an array that is copied to it.
// RUN: nabla-opt "%s" --nabla-cpu --mlir-print-ir-after=nabla-plan-memory --mlir-disable-threading 2>&1 >/dev/null | FileCheck "%s"

!w = tensor<64x64xf32>

// CHECK-LABEL: func.func @update
// CHECK-SAME: %[[W:[a-z0-9]*]]: memref<64x64xf32>, %[[M:[a-z0-9]*]]: memref<64x64xf32>)
// CHECK-NOT: memref.copy
// CHECK: call @nabla_cluster{{.*}}%[[M]], %[[W]]
// CHECK-NOT: memref.copy
// CHECK: return{{$}}
func.func @update(%g: !w, %w: !w {nabla.state = "w"}, %m: !w {nabla.state = "m"}) -> (!w {nabla.state = "w"}, !w {nabla.state = "m"}) {
  %a = nabla.add %m, %g : !w, !w
  %b = nabla.sub %w, %a : !w, !w
  return %b, %a : !w, !w
}

// Also one that does not read the state.
// CHECK-LABEL: func.func @product
// CHECK-SAME: %{{[a-z0-9]*}}: memref<64x64xf32>, %[[W:[a-z0-9]*]]: memref<64x64xf32>)
// CHECK: call @nabla_fused{{.*}}%[[W]]
// CHECK-NOT: memref.copy
// CHECK: return{{$}}
func.func @product(%x: !w, %w: !w {nabla.state = "w"}) -> (!w {nabla.state = "w"}) {
  %y = nabla.dot_general %x, %x contracting = [1] x [0] : !w, !w
  return %y : !w
}

// Not where elements are read at other places, ...
// CHECK-LABEL: func.func @square
// CHECK: memref.copy %{{.*}}, %{{.*}} : memref<64x64xf32> to memref<64x64xf32>
func.func @square(%w: !w {nabla.state = "w"}) -> (!w {nabla.state = "w"}) {
  %y = nabla.dot_general %w, %w contracting = [1] x [0] : !w, !w
  return %y : !w
}

// ... where rows are reduced first, ...
// CHECK-LABEL: func.func @rows
// CHECK: memref.copy %{{.*}}, %{{.*}} : memref<64x64xf32> to memref<64x64xf32>
func.func @rows(%w: !w {nabla.state = "w"}) -> (!w {nabla.state = "w"}) {
  %y = nabla.softmax %w dim = 1 : !w
  return %y : !w
}

// ... where the state is read in between, ...
// CHECK-LABEL: func.func @between
// CHECK: memref.copy %{{.*}}, %{{.*}} : memref<64x64xf32> to memref<64x64xf32>
func.func @between(%x: !w, %w: !w {nabla.state = "w"}) -> (!w, !w {nabla.state = "w"}) {
  %y = nabla.exp %x : !w
  %z = nabla.dot_general %y, %w contracting = [1] x [0] : !w, !w
  return %z, %y : !w, !w
}

// ... and where the array is a result, too.
// CHECK-LABEL: func.func @given
// CHECK: memref.copy %{{.*}}, %{{.*}} : memref<64x64xf32> to memref<64x64xf32>
func.func @given(%x: !w, %w: !w {nabla.state = "w"}) -> (!w, !w {nabla.state = "w"}) {
  %y = nabla.add %x, %w : !w, !w
  return %y, %y : !w, !w
}

// An old value that is a result, or read behind the first write, once `x - 0` is
// x, is copied at the start; nothing else is.
// CHECK-LABEL: func.func @old
// CHECK-SAME: %[[W:[a-z0-9]*]]: memref<8x4xf32>, %[[X:[a-z0-9]*]]: memref<8x4xf32>)
// CHECK: %[[OLD:.*]] = memref.{{.*}}memref<8x4xf32>
// CHECK-NEXT: linalg.copy ins(%[[W]] : memref<8x4xf32>) outs(%[[OLD]] : memref<8x4xf32>)
// CHECK-NEXT: linalg.generic {{.*}} ins(%[[W]], %[[X]] : {{.*}}) outs(%[[W]] :
// CHECK-NOT: copy
// CHECK: return %[[OLD]]
!k = tensor<8x4xf32>
func.func @old(%k: !k {nabla.state = "k"}, %x: !k) -> (!k {nabla.state = "k"}, !k) {
  %zero = nabla.constant dense<0.0> : !k
  %o = nabla.sub %k, %zero : !k, !k
  %n = nabla.add %k, %x : !k, !k
  return %n, %o : !k, !k
}

// CHECK-LABEL: func.func @old_read
// CHECK-SAME: %[[W:[a-z0-9]*]]: memref<8x4xf32>, %[[X:[a-z0-9]*]]: memref<1x4xf32>
// CHECK: linalg.copy ins(%[[W]] : memref<8x4xf32>) outs(%[[OLD:.*]] : memref<8x4xf32>)
// CHECK: %[[ROW:.*]] = memref.subview %[[W]]
// CHECK: memref.copy %[[X]], %[[ROW]]
// CHECK: linalg.generic {{.*}} ins(%[[OLD]], %[[W]] :
// CHECK-NOT: copy
// CHECK: return
func.func @old_read(%k: !k {nabla.state = "k"}, %x: tensor<1x4xf32>, %p: tensor<i64>) -> (!k {nabla.state = "k"}, !k) {
  %zero = nabla.constant dense<0.0> : !k
  %first = nabla.constant dense<0> : tensor<i64>
  %o = nabla.sub %k, %zero : !k, !k
  %n = nabla.dynamic_update_slice %k, %x at (%p, %first : tensor<i64>, tensor<i64>) : !k, tensor<1x4xf32>
  %d = nabla.mul %o, %n : !k, !k
  return %n, %d : !k, !k
}

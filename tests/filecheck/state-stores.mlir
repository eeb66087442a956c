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

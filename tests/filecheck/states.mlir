// States: the arguments that may be written to, the manifest, and what is left
// of them behind bufferization: a row is written, nothing is copied.
// RUN: nabla-opt "%s" --nabla-manifest | FileCheck "%s" --check-prefix=MANIFEST
// RUN: nabla-opt "%s" --nabla-manifest --nabla-lower-control --nabla-to-linalg --nabla-states | FileCheck "%s" --check-prefix=STATES
// RUN: nabla-opt "%s" --nabla-cpu --mlir-print-ir-after=nabla-state-results --mlir-disable-threading 2>&1 >/dev/null | FileCheck "%s" --check-prefix=BUFFERS
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=ENTRY

!k = tensor<8x4xf32>

// A state is an argument with a name, and no result.
// MANIFEST: {\22name\22:\22k\22,\22dtype\22:\22F32\22,\22shape\22:[8,4],\22state\22:\22cache\22}],\22results\22:[{\22name\22:\22\22,\22dtype\22:\22F32\22,\22shape\22:[4]}]}
// MANIFEST: func.func @step
// MANIFEST-SAME: tensor<8x4xf32> {bufferization.writable = false, nabla.state = "cache"}

// STATES-LABEL: func.func @step
// STATES-SAME: tensor<1x4xf32> {bufferization.writable = false}
// STATES-SAME: %[[K:[a-z0-9]*]]: tensor<8x4xf32> {bufferization.writable = true, nabla.state = "cache"}
// STATES: %[[NEW:.*]] = tensor.insert_slice %{{.*}} into %[[K]]
// STATES-NOT: materialize_in_destination
// STATES: return %{{.*}}, %[[NEW]]

// BUFFERS-LABEL: func.func @step
// BUFFERS-SAME: %[[K:[a-z0-9]*]]: memref<8x4xf32>) -> memref<4xf32> attributes
// BUFFERS-NOT: memref.alloc{{.*}}memref<8x4xf32>
// BUFFERS: memref.subview %[[K]]
// BUFFERS-NOT: memref.alloc{{.*}}memref<8x4xf32>
// BUFFERS: return

// ENTRY: llvm.func @nabla_entry_step
func.func @step(%x: tensor<1x4xf32>, %p: tensor<i64>, %k: !k {nabla.name = "k", nabla.state = "cache"}) -> (tensor<4xf32>, !k {nabla.state = "cache"}) {
  %c0 = arith.constant 0 : index
  %i = tensor.extract %p[] : tensor<i64>
  %at = arith.index_cast %i : i64 to index
  %n = nabla.dynamic_update_slice %k, %x at (%at, %c0 : index, index) : !k, tensor<1x4xf32>
  %s = nabla.reduce sum %n dims = [0] : !k
  return %s, %n : tensor<4xf32>, !k
}

// A state that is computed anew is written where it is; one that is only read
// has no result, and another function shares it.
// STATES-LABEL: func.func @decay
// STATES-SAME: %[[K:[a-z0-9]*]]: tensor<8x4xf32> {bufferization.writable = true, nabla.state = "cache"}
// STATES: %[[NEW:.*]] = linalg.generic
// STATES: %[[DONE:.*]] = bufferization.materialize_in_destination %[[NEW]] in %[[K]]
// STATES: return %[[DONE]]
// BUFFERS-LABEL: func.func @decay
// BUFFERS-SAME: %[[K:[a-z0-9]*]]: memref<8x4xf32>, %[[B:[a-z0-9]*]]: memref<8x4xf32>) attributes
// BUFFERS-NEXT: linalg.generic {{.*}} ins(%[[K]], %[[B]] : {{.*}}) outs(%[[K]] :
// BUFFERS-NOT: memref.copy
// BUFFERS: return{{$}}
func.func @decay(%k: !k {nabla.name = "k", nabla.state = "cache"}, %b: !k {nabla.name = "b", nabla.state = "bias"}) -> (!k {nabla.state = "cache"}) {
  %n = nabla.add %k, %b : !k, !k
  return %n : !k
}

// A private function and a loop pass a state on.
// STATES-LABEL: func.func private @put
// STATES-SAME: %{{.*}}: tensor<8x4xf32> {bufferization.writable = true}
// BUFFERS-LABEL: func.func private @put
// BUFFERS-NOT: memref.alloc
// BUFFERS: return{{$}}
func.func private @put(%k: !k, %x: tensor<1x4xf32>, %at: index) -> !k {
  %c0 = arith.constant 0 : index
  %n = nabla.dynamic_update_slice %k, %x at (%at, %c0 : index, index) : !k, tensor<1x4xf32>
  return %n : !k
}

// BUFFERS-LABEL: func.func @fill
// BUFFERS-NOT: memref.alloc{{.*}}memref<8x4xf32>
// BUFFERS: call @put
// BUFFERS-NOT: memref.alloc{{.*}}memref<8x4xf32>
// BUFFERS: return{{$}}
func.func @fill(%xs: tensor<5x1x4xf32>, %k: !k {nabla.name = "k", nabla.state = "cache"}) -> (!k {nabla.state = "cache"}) {
  %zero = nabla.constant dense<0> : tensor<i64>
  %one = nabla.constant dense<1> : tensor<i64>
  %r:2 = nabla.scan init(%zero, %k : tensor<i64>, !k) over(%xs : tensor<5x1x4xf32>) -> tensor<i64>, !k {
  ^bb0(%i: tensor<i64>, %c: !k, %x: tensor<1x4xf32>):
    %v = tensor.extract %i[] : tensor<i64>
    %at = arith.index_cast %v : i64 to index
    %n = func.call @put(%c, %x, %at) : (!k, tensor<1x4xf32>, index) -> !k
    %j = nabla.add %i, %one : tensor<i64>, tensor<i64>
    nabla.yield %j, %n : tensor<i64>, !k
  }
  return %r#1 : !k
}

// The valid rows are a view, also of a size that is known at run time.
// BUFFERS-LABEL: func.func @valid
// BUFFERS-SAME: %[[K:[a-z0-9]*]]: memref<8x4xf32>) -> memref<4xf32> attributes
// BUFFERS: memref.subview %[[K]]{{.*}} to memref<?x4xf32, strided<[4, 1], offset: ?>>
// BUFFERS-NOT: memref.alloc{{.*}}memref<?x4xf32
// BUFFERS: return
func.func @valid(%p: tensor<i64>, %k: !k {nabla.name = "k", nabla.state = "cache"}) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %i = tensor.extract %p[] : tensor<i64>
  %n = arith.index_cast %i : i64 to index
  %v = nabla.dynamic_slice %k at (%c0, %c0 : index, index) sizes(%n) : !k -> tensor<?x4xf32>
  %s = nabla.reduce sum %v dims = [0] : tensor<?x4xf32>
  return %s : tensor<4xf32>
}

// The same of a private function that is given a state, ...
// BUFFERS-LABEL: func.func private @sum_of
// BUFFERS-SAME: %[[K:[a-z0-9]*]]: memref<8x4xf32>
// BUFFERS-NOT: memref.alloc{{.*}}memref<?x4xf32
// BUFFERS: memref.subview %[[K]]{{.*}} to memref<?x4xf32, strided<[4, 1], offset: ?>>
// BUFFERS-NOT: memref.alloc{{.*}}memref<?x4xf32
// BUFFERS: return
func.func private @sum_of(%k: !k, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %v = nabla.dynamic_slice %k at (%c0, %c0 : index, index) sizes(%n) : !k -> tensor<?x4xf32>
  %s = nabla.reduce sum %v dims = [0] : tensor<?x4xf32>
  return %s : tensor<4xf32>
}
func.func @inside(%p: tensor<i64>, %k: !k {nabla.name = "k", nabla.state = "cache"}) -> tensor<4xf32> {
  %i = tensor.extract %p[] : tensor<i64>
  %n = arith.index_cast %i : i64 to index
  %s = func.call @sum_of(%k, %n) : (!k, index) -> tensor<4xf32>
  return %s : tensor<4xf32>
}

// ... and of a state that a scan carries.
// BUFFERS-LABEL: func.func @carried
// BUFFERS-SAME: %[[K:[a-z0-9]*]]: memref<8x4xf32>)
// BUFFERS-NOT: memref.alloc{{.*}}memref<?x4xf32
// BUFFERS: memref.subview {{.*}} to memref<?x4xf32, strided<[4, 1], offset: ?>>
// BUFFERS-NOT: memref.alloc{{.*}}memref<?x4xf32
// BUFFERS: return
func.func @carried(%xs: tensor<5x1x4xf32>, %p: tensor<i64>, %k: !k {nabla.name = "k", nabla.state = "cache"}) -> (tensor<5x4xf32>, !k {nabla.state = "cache"}) {
  %c0 = arith.constant 0 : index
  %i = tensor.extract %p[] : tensor<i64>
  %n = arith.index_cast %i : i64 to index
  %r:2 = nabla.scan init(%k : !k) over(%xs : tensor<5x1x4xf32>) -> !k, tensor<5x4xf32> {
  ^bb0(%c: !k, %x: tensor<1x4xf32>):
    %w = nabla.dynamic_update_slice %c, %x at (%n, %c0 : index, index) : !k, tensor<1x4xf32>
    %v = nabla.dynamic_slice %w at (%c0, %c0 : index, index) sizes(%n) : !k -> tensor<?x4xf32>
    %s = nabla.reduce sum %v dims = [0] : tensor<?x4xf32>
    nabla.yield %w, %s : !k, tensor<4xf32>
  }
  return %r#1, %r#0 : tensor<5x4xf32>, !k
}

// Two results of one loop, of which one replaces the state that it reads.
// BUFFERS-LABEL: func.func @siblings
// BUFFERS-SAME: %[[K:[a-z0-9]*]]: memref<8x4xf32>, %[[X:[a-z0-9]*]]: memref<8x4xf32>)
// BUFFERS: %[[Y:.*]] = memref.alloc
// BUFFERS-NOT: memref.copy
// BUFFERS: return %[[Y]]
func.func @siblings(%k: !k {nabla.name = "k", nabla.state = "cache"}, %x: !k) -> (!k, !k {nabla.state = "cache"}) {
  %a = nabla.sub %k, %x : !k, !k
  %b = nabla.add %k, %x : !k, !k
  return %a, %b : !k, !k
}

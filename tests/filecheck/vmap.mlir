// nabla-vmap: the function of a batch beside a function.
// RUN: split-file "%s" "%t"
// RUN: nabla-opt "%t/rows.mlir" --pass-pipeline='builtin.module(nabla-vmap{in-axes=0,none,none},nabla-dispatch{policy=error})' | FileCheck "%t/rows.mlir"
// RUN: nabla-opt "%t/plain.mlir" --pass-pipeline='builtin.module(nabla-vmap{in-axes=1,none out-axes=-1,none,0 axis-size=5})' | FileCheck "%t/plain.mlir"
// RUN: nabla-opt "%t/packed.mlir" --pass-pipeline='builtin.module(nabla-vmap{axis-size=3})' | FileCheck "%t/packed.mlir"
// RUN: nabla-opt "%t/encode.mlir" --pass-pipeline='builtin.module(nabla-vmap{axis-size=3})' 2>/dev/null | FileCheck "%t/encode.mlir"
// RUN: nabla-opt "%t/control.mlir" --pass-pipeline='builtin.module(nabla-vmap{in-axes=0,none axis-size=4})' | FileCheck "%t/control.mlir"
// RUN: nabla-opt "%t/arith.mlir" --pass-pipeline='builtin.module(nabla-vmap{in-axes=0,0,none,none axis-size=4})' | FileCheck "%t/arith.mlir"
// RUN: nabla-opt "%t/gather.mlir" --pass-pipeline='builtin.module(nabla-vmap{axis-size=0})' | FileCheck "%t/gather.mlir"
// RUN: nabla-opt "%t/calls.mlir" --pass-pipeline='builtin.module(nabla-vmap{in-axes=0,none axis-size=4})' | FileCheck "%t/calls.mlir"
// RUN: nabla-opt "%t/plain.mlir" --pass-pipeline='builtin.module(nabla-vmap{axis-size=2},nabla-vmap{function=main.vmap axis-size=3})' | FileCheck "%t/plain.mlir" --check-prefix=TWICE

//--- rows.mlir
// The examples of x are rows of one product with the packed weight.
// CHECK-LABEL: func.func @main.vmap
// CHECK-NOT: nabla.scan
// CHECK-NOT: nabla.materialize
// CHECK: nabla.fused_dot %{{.*}} : tensor<?x64xf32>, !nabla.implicit<8x64xf32
// CHECK: nabla.fused_dot %{{.*}} : tensor<?x64xf32>, !nabla.implicit<8x64xf32
// CHECK-NOT: nabla.scan
// CHECK: return
!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
func.func @main(%x: tensor<3x64xf32>, %w: !w, %b: tensor<8xf32>) -> (tensor<3x8xf32>, tensor<3x8xf32>) {
  %y = nabla.linear %x, %w, %b : tensor<3x64xf32>, !w, tensor<8xf32>
  %z = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<3x64xf32>, !w
  return %y, %z : tensor<3x8xf32>, tensor<3x8xf32>
}

//--- plain.mlir
// What depends on no example stays as it is (%n), or is repeated where the
// caller asks for a batch.
// CHECK-LABEL: func.func @main.vmap
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x5x3xf32>, %[[Y:[a-z0-9]+]]: tensor<2x3xf32>
// CHECK-SAME: -> (tensor<3x5xf32>, tensor<2x3xf32>, tensor<5x2x3xf32>)
// CHECK-DAG: %[[T:.*]] = nabla.transpose %[[X]] permutation = [1, 0, 2]
// CHECK-DAG: %[[N:.*]] = nabla.neg %[[Y]] : tensor<2x3xf32>
// CHECK: %[[R:.*]] = nabla.broadcast_in_dim %[[N]] dims = [1, 2] : tensor<2x3xf32> -> tensor<5x2x3xf32>
// CHECK: %[[A:.*]] = nabla.add %[[T]], %[[R]] : tensor<5x2x3xf32>
// CHECK: %[[S:.*]] = nabla.reduce max %[[A]] dims = [1]
// CHECK: nabla.transpose %[[S]] permutation = [1, 0]
// TWICE-LABEL: func.func @main.vmap.vmap
// TWICE-SAME: tensor<3x2x2x3xf32>
// TWICE: nabla.reduce max %{{.*}} dims = [2] : tensor<3x2x2x3xf32>
func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> (tensor<3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) {
  %n = nabla.neg %y : tensor<2x3xf32>
  %a = nabla.add %x, %n : tensor<2x3xf32>, tensor<2x3xf32>
  %s = nabla.reduce max %a dims = [0] : tensor<2x3xf32>
  return %s, %n, %n : tensor<3xf32>, tensor<2x3xf32>, tensor<2x3xf32>
}

//--- packed.mlir
// Examples that are whole blocks stay packed: one batched product.
// CHECK-LABEL: func.func @main.vmap
// CHECK-SAME: %[[W:[a-z0-9]+]]: !nabla.implicit<3x8x64xf32, #nabla.nf4<block = 64>>
// CHECK-NOT: nabla.materialize
// CHECK: nabla.dot_general %{{.*}}, %[[W]] batching = [0] x [0] contracting = [2] x [2]
!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
func.func @main(%x: tensor<2x64xf32>, %w: !w) -> tensor<2x8xf32> {
  %z = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<2x64xf32>, !w
  return %z : tensor<2x8xf32>
}

//--- encode.mlir
// Whole blocks: one quantize. Blocks that would cross examples: each alone.
// CHECK-LABEL: func.func @main.vmap
// CHECK: nabla.quantize %{{.*}} : tensor<3x4x16xf32> -> !nabla.implicit<3x4x16xf32, #nabla.nf4<block = 64>>
// CHECK: nabla.scan
// CHECK: nabla.quantize %{{.*}} : tensor<10xf32> -> !nabla.implicit<10xf32, #nabla.nf4<block = 64>>
// CHECK: nabla.materialize
// CHECK: nabla.yield
func.func @main(%x: tensor<4x16xf32>, %y: tensor<10xf32>) -> (tensor<4x16xf32>, tensor<10xf32>) {
  %q = nabla.quantize %x : tensor<4x16xf32> -> !nabla.implicit<4x16xf32, #nabla.nf4<block = 64>>
  %p = nabla.quantize %y : tensor<10xf32> -> !nabla.implicit<10xf32, #nabla.nf4<block = 64>>
  %a = nabla.materialize %q : !nabla.implicit<4x16xf32, #nabla.nf4<block = 64>>
  %b = nabla.materialize %p : !nabla.implicit<10xf32, #nabla.nf4<block = 64>>
  return %a, %b : tensor<4x16xf32>, tensor<10xf32>
}

//--- control.mlir
// A choice of each example is a select, a loop runs until all are done; with a
// division that may fail each example is alone.
// CHECK-LABEL: func.func @main.vmap
// CHECK-NOT: nabla.cond
// CHECK: nabla.neg
// CHECK: nabla.select
// CHECK: nabla.while
// CHECK: nabla.reduce any %{{.*}} dims = [0] : tensor<4xi1>
// CHECK: nabla.select
// CHECK: nabla.scan
// CHECK-NEXT: ^bb0(%{{.*}}: tensor<i64>
// CHECK: nabla.while
func.func @main(%x: tensor<i64>, %y: tensor<i64>) -> (tensor<i64>, tensor<i64>, tensor<i64>) {
  %p = nabla.compare lt %x, %y : tensor<i64>, tensor<i64>
  %c = nabla.cond %p : tensor<i1> -> tensor<i64> {
    nabla.yield %x : tensor<i64>
  }, {
    %n = nabla.neg %x : tensor<i64>
    nabla.yield %n : tensor<i64>
  }
  %w = nabla.while(%x) : tensor<i64> cond {
  ^bb0(%a: tensor<i64>):
    %more = nabla.compare lt %a, %y : tensor<i64>, tensor<i64>
    nabla.condition %more, %a : tensor<i1>, tensor<i64>
  } do {
  ^bb0(%a: tensor<i64>):
    %b = nabla.add %a, %a : tensor<i64>, tensor<i64>
    nabla.yield %b : tensor<i64>
  }
  %v = nabla.while(%x) : tensor<i64> cond {
  ^bb0(%a: tensor<i64>):
    %more = nabla.compare gt %a, %y : tensor<i64>, tensor<i64>
    nabla.condition %more, %a : tensor<i1>, tensor<i64>
  } do {
  ^bb0(%a: tensor<i64>):
    %b = nabla.div %y, %a : tensor<i64>, tensor<i64>
    nabla.yield %b : tensor<i64>
  }
  return %c, %w, %v : tensor<i64>, tensor<i64>, tensor<i64>
}

//--- arith.mlir
// Operations of arith and math work on all examples at once; a condition that is
// no tensor stays as it is. A loop that may divide by 0: each example is alone.
// CHECK-LABEL: func.func @main.vmap
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x3xi32>
// CHECK: %[[R:.*]] = nabla.broadcast_in_dim %{{.*}} dims = [1] : tensor<3xi32> -> tensor<4x3xi32>
// CHECK: %[[L:.*]] = arith.cmpi slt, %[[X]], %[[R]] : tensor<4x3xi32>
// CHECK: %[[W:.*]] = arith.extui %[[L]] : tensor<4x3xi1> to tensor<4x3xi32>
// CHECK: %[[P:.*]] = math.ctpop %[[W]] : tensor<4x3xi32>
// CHECK: arith.select %{{[a-z0-9]+}}, %[[P]], %[[X]] : tensor<4x3xi32>
// CHECK: nabla.scan
// CHECK: nabla.while
// CHECK: arith.remsi %{{.*}} : tensor<i64>
func.func @main(%x: tensor<3xi32>, %n: tensor<i64>, %y: tensor<3xi32>, %p: i1) -> (tensor<3xi32>, tensor<i64>) {
  %l = arith.cmpi slt, %x, %y : tensor<3xi32>
  %w = arith.extui %l : tensor<3xi1> to tensor<3xi32>
  %c = math.ctpop %w : tensor<3xi32>
  %s = arith.select %p, %c, %x : tensor<3xi32>
  %v = nabla.while(%n) : tensor<i64> cond {
  ^bb0(%a: tensor<i64>):
    %zero = arith.constant dense<0> : tensor<i64>
    %more = arith.cmpi sgt, %a, %zero : tensor<i64>
    nabla.condition %more, %a : tensor<i1>, tensor<i64>
  } do {
  ^bb0(%a: tensor<i64>):
    %b = arith.remsi %n, %a : tensor<i64>
    nabla.yield %b : tensor<i64>
  }
  return %s, %v : tensor<3xi32>, tensor<i64>
}

//--- gather.mlir
// A batch of no examples takes no box.
// CHECK-LABEL: func.func @main.vmap
// CHECK: nabla.gather %{{.*}} batching = [0] x [0] {{.*}} : tensor<0x4xf32>, tensor<0x1xi64>
// CHECK-NEXT: return %{{.*}} : tensor<0x2xf32>
func.func @main(%x: tensor<4xf32>, %at: tensor<i64>) -> tensor<2xf32> {
  %y = nabla.dynamic_slice %x at(%at : tensor<i64>) : tensor<4xf32> -> tensor<2xf32>
  return %y : tensor<2xf32>
}

//--- calls.mlir
// One function of a batch for each list of arguments that have one; a call
// without a batch stays.
// CHECK-LABEL: func.func @main.vmap
// CHECK: call @twice.vmap.1(%{{.*}}) : (tensor<4x3xf32>) -> tensor<4x3xf32>
// CHECK: call @twice.vmap.1(%{{.*}}) : (tensor<4x3xf32>) -> tensor<4x3xf32>
// CHECK: call @twice(%{{.*}}) : (tensor<3xf32>) -> tensor<3xf32>
// CHECK: func.func private @twice.vmap.1(%{{.*}}: tensor<4x3xf32>) -> tensor<4x3xf32>
// CHECK-NOT: @twice.vmap.2
func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %a = func.call @twice(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %b = func.call @twice(%a) : (tensor<3xf32>) -> tensor<3xf32>
  %c = func.call @twice(%y) : (tensor<3xf32>) -> tensor<3xf32>
  return %b, %c : tensor<3xf32>, tensor<3xf32>
}
func.func private @twice(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = nabla.add %x, %x : tensor<3xf32>, tensor<3xf32>
  return %y : tensor<3xf32>
}

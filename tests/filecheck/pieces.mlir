// What changes in operations that compute a piece: a table by hand of local
// shapes and exchanges for each class.
// RUN: nabla-opt "%s" --nabla-propagate-sharding --nabla-partition --split-input-file --verify-diagnostics | FileCheck "%s"

// 10 rows on 4 devices: pieces of 3, what lies behind the end is not summed, and
// cropped where the whole is needed.
// CHECK-LABEL: @padded(%arg0: tensor<3x6xf32>) -> (tensor<6xf32>, tensor<10x6xf32>)
nabla.mesh @m <["a"=4]>
func.func @padded(%x: tensor<10x6xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}) -> (tensor<6xf32>, tensor<10x6xf32>) {
  // CHECK-NEXT: %[[Y:.*]] = nabla.exp %arg0 : tensor<3x6xf32>
  // CHECK: %[[END:.*]] = nabla.full 10 : i64 -> tensor<3x6xi64>
  // CHECK: %[[IN:.*]] = nabla.compare lt %{{.*}}, %[[END]]
  // CHECK: %[[M:.*]] = nabla.select %[[IN]], %[[Y]],
  // CHECK: %[[S:.*]] = nabla.reduce sum %[[M]] dims = [0] : tensor<3x6xf32>
  // CHECK: nabla.all_reduce sum %[[S]] axes = ["a"] : tensor<6xf32>
  // CHECK: %[[G:.*]] = nabla.all_gather %[[Y]] dim = 0 axes = ["a"] : tensor<3x6xf32> -> tensor<12x6xf32>
  // CHECK: nabla.slice %[[G]] starts = [0, 0] limits = [10, -1] : tensor<12x6xf32>
  %y = nabla.exp %x : tensor<10x6xf32>
  %r = nabla.reduce sum %y dims = [0] : tensor<10x6xf32>
  return %r, %y : tensor<6xf32>, tensor<10x6xf32>
}

// -----
// CHECK-LABEL: @moves(%arg0: tensor<2x6xf32>
nabla.mesh @m <["a"=2]>
func.func @moves(%x: tensor<4x6xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}, %v: tensor<f32>) {
  // CHECK-NEXT: nabla.slice %arg0 starts = [0, 1] limits = [2, 3] : tensor<2x6xf32>
  // CHECK-NEXT: nabla.pad %arg0, %arg1 low = [0, 1] high = [0, 0] : tensor<2x6xf32>, tensor<f32>
  // CHECK-NEXT: nabla.flip %arg0 dims = [1] : tensor<2x6xf32>
  // CHECK-NEXT: nabla.stack %arg0, %arg0 dim = 0 : tensor<2x6xf32>, tensor<2x6xf32>
  // CHECK-NEXT: nabla.split %arg0 dim = 1 sizes = [2, 4] : tensor<2x6xf32>
  // CHECK-NEXT: nabla.pool max %arg0 window = [1, 3] : tensor<2x6xf32>
  %a = nabla.slice %x starts = [0, 1] limits = [4, 3] : tensor<4x6xf32>
  %b = nabla.pad %x, %v low = [0, 1] high = [0, 0] : tensor<4x6xf32>, tensor<f32>
  %c = nabla.flip %x dims = [1] : tensor<4x6xf32>
  %d = nabla.stack %x, %x dim = 0 : tensor<4x6xf32>, tensor<4x6xf32>
  %e:2 = nabla.split %x dim = 1 sizes = [2, 4] : tensor<4x6xf32>
  %f = nabla.pool max %x window = [1, 3] : tensor<4x6xf32>
  return
}

// -----
// Input features are summed, groups are divided.
// CHECK-LABEL: @convolutions(%arg0: tensor<1x2x8xf32>, %arg1: tensor<6x2x3xf32>, %arg2: tensor<1x2x8xf32>, %arg3: tensor<2x2x3xf32>)
nabla.mesh @m <["a"=2]>
func.func @convolutions(%x: tensor<1x4x8xf32> {nabla.sharding = #nabla.sharding<@m, [{}, {"a"}, {}]>}, %k: tensor<6x4x3xf32>, %y: tensor<1x4x8xf32>, %l: tensor<4x2x3xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}, {}]>}) {
  // CHECK-NEXT: %[[C:.*]] = nabla.conv_general %arg0, %arg1 : tensor<1x2x8xf32>, tensor<6x2x3xf32>
  // CHECK-NEXT: nabla.all_reduce sum %[[C]] axes = ["a"] : tensor<1x6x6xf32>
  // CHECK-NEXT: nabla.conv_general %arg2, %arg3 : tensor<1x2x8xf32>, tensor<2x2x3xf32>
  %a = nabla.conv_general %x, %k : tensor<1x4x8xf32>, tensor<6x4x3xf32>
  %b = nabla.conv_general %y, %l groups = 2 : tensor<1x4x8xf32>, tensor<4x2x3xf32>
  return
}

// -----
// Created where it is needed: the global shape and a start.
// CHECK-LABEL: @created
nabla.mesh @m <["a"=2]>
func.func @created(%x: tensor<8xi64> {nabla.sharding = #nabla.sharding<@m, [{"a"}]>}) -> tensor<i64> {
  // CHECK: nabla.iota dim = 0 -> tensor<4xi64>
  // CHECK: %[[D:.*]] = nabla.axis_index axes = ["a"]
  // CHECK: %[[S:.*]] = nabla.mul %[[D]],
  // CHECK: %[[B:.*]] = nabla.broadcast_in_dim %[[S]]
  // CHECK: %[[J:.*]] = nabla.add %{{.*}}, %[[B]] : tensor<4xi64>, tensor<4xi64>
  // CHECK: nabla.mul %arg0, %[[J]] : tensor<4xi64>, tensor<4xi64>
  %i = nabla.iota dim = 0 -> tensor<8xi64>
  %y = nabla.mul %x, %i : tensor<8xi64>, tensor<8xi64>
  %r = nabla.reduce sum %y dims = [0] : tensor<8xi64>
  return %r : tensor<i64>
}

// -----
// Values and indices of all devices, of which the first best one is taken.
// CHECK-LABEL: @best
nabla.mesh @m <["a"=2]>
func.func @best(%x: tensor<3x8xf32> {nabla.sharding = #nabla.sharding<@m, [{}, {"a"}]>}) -> tensor<3xi64> {
  // CHECK-NEXT: nabla.argmax %arg0 dim = 1 : tensor<3x4xf32>
  // CHECK: nabla.all_gather %{{.*}} dim = 0 axes = ["a"] : tensor<1x3xf32> -> tensor<2x3xf32>
  // CHECK: nabla.all_gather %{{.*}} dim = 0 axes = ["a"] : tensor<1x3xi64> -> tensor<2x3xi64>
  // CHECK: nabla.argmax %{{.*}} dim = 0 : tensor<2x3xf32>
  %r = nabla.argmax %x dim = 1 : tensor<3x8xf32>
  return %r : tensor<3xi64>
}

// -----
// Rows of another device lie outside.
// CHECK-LABEL: @scattered(%arg0: tensor<4x6xf32>
nabla.mesh @m <["a"=2]>
func.func @scattered(%x: tensor<8x6xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}, %i: tensor<2xi64>, %u: tensor<2x6xf32>) {
  // CHECK: %[[I:.*]] = nabla.sub %arg1,
  // CHECK: nabla.scatter add %arg0, %[[I]], %arg2 {{.*}} : tensor<4x6xf32>, tensor<2xi64>, tensor<2x6xf32>
  %r = nabla.scatter add %x, %i, %u offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 : tensor<8x6xf32>, tensor<2xi64>, tensor<2x6xf32>
  return
}

// -----
// The first device adds the bias; a mean of pieces is a part of the mean.
// CHECK-LABEL: @parts
nabla.mesh @m <["a"=2]>
func.func @parts(%x: tensor<4x8xf32> {nabla.sharding = #nabla.sharding<@m, [{}, {"a"}]>}, %w: tensor<6x8xf32>, %b: tensor<6xf32>) -> (tensor<4x6xf32>, tensor<4xf32>) {
  // CHECK: %[[B:.*]] = nabla.select %{{.*}}, %arg2, %{{.*}} : tensor<6xi1>, tensor<6xf32>, tensor<6xf32>
  // CHECK: %[[Y:.*]] = nabla.linear %arg0, %arg1, %[[B]] : tensor<4x4xf32>, tensor<6x4xf32>, tensor<6xf32>
  // CHECK: nabla.all_reduce sum %[[Y]]
  // CHECK: %[[M:.*]] = nabla.reduce mean %arg0 dims = [1] : tensor<4x4xf32>
  // CHECK: %[[H:.*]] = nabla.full 5.000000e-01
  // CHECK: %[[P:.*]] = nabla.mul %[[M]], %[[H]]
  // CHECK: nabla.all_reduce sum %[[P]]
  %y = nabla.linear %x, %w, %b : tensor<4x8xf32>, tensor<6x8xf32>, tensor<6xf32>
  %m = nabla.reduce mean %x dims = [1] : tensor<4x8xf32>
  return %y, %m : tensor<4x6xf32>, tensor<4xf32>
}

// -----
// A loop of pieces; its condition is whole.
// CHECK-LABEL: @loop
nabla.mesh @m <["a"=2]>
func.func @loop(%x: tensor<8xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}]>}, %limit: tensor<f32>) -> tensor<8xf32> {
  // CHECK: %[[R:.*]] = nabla.while(%arg0) : tensor<4xf32> cond {
  // CHECK-NEXT: ^bb0(%[[C:.*]]: tensor<4xf32>):
  // CHECK-NEXT: %[[S:.*]] = nabla.reduce sum %[[C]] dims = [0] : tensor<4xf32>
  // CHECK-NEXT: %[[A:.*]] = nabla.all_reduce sum %[[S]]
  // CHECK-NEXT: nabla.compare lt %[[A]], %arg1
  // CHECK: nabla.add {{.*}} : tensor<4xf32>, tensor<4xf32>
  // CHECK: nabla.all_gather %[[R]]
  %r = nabla.while(%x) : tensor<8xf32> cond {
  ^bb0(%a: tensor<8xf32>):
    %s = nabla.reduce sum %a dims = [0] : tensor<8xf32>
    %p = nabla.compare lt %s, %limit : tensor<f32>, tensor<f32>
    nabla.condition %p, %a : tensor<i1>, tensor<8xf32>
  } do {
  ^bb0(%a: tensor<8xf32>):
    %b = nabla.add %a, %a : tensor<8xf32>, tensor<8xf32>
    nabla.yield %b : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}

// -----
// A size that is known when the program runs, and the sizes of what is made.
// CHECK-LABEL: @unknown(%arg0: tensor<?x4xf32>)
nabla.mesh @m <["a"=2]>
func.func @unknown(%x: tensor<?x4xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}) -> tensor<?x4xf32> {
  // CHECK: %[[D:.*]] = tensor.dim %arg0
  // CHECK: %[[N:.*]] = arith.muli %[[D]],
  // CHECK: %[[M:.*]] = arith.divui %[[N]],
  // CHECK: nabla.full 1.000000e+00 : f32 sizes(%[[M]]) -> tensor<?x4xf32>
  %zero = arith.constant 0 : index
  %n = tensor.dim %x, %zero : tensor<?x4xf32>
  %one = nabla.full 1.0 : f32 sizes(%n) -> tensor<?x4xf32>
  %y = nabla.add %x, %one : tensor<?x4xf32>, tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----
// A custom call that says how it is divided, and one that does not.
// CHECK-LABEL: @calls
nabla.mesh @m <["a"=2]>
func.func @calls(%x: tensor<4x8xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}) -> tensor<4x8xf32> {
  // CHECK-NEXT: %[[Y:.*]] = nabla.custom_call @own(%arg0) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  // CHECK-NEXT: %[[G:.*]] = nabla.all_gather %[[Y]]
  // CHECK-NEXT: nabla.custom_call @other(%[[G]]) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %y = nabla.custom_call @own(%x) {nabla.factors = "m n -> m n {n: whole}"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // expected-warning @+1 {{1 custom call is done whole by every device: nabla.factors says how a call is divided}}
  %z = nabla.custom_call @other(%y) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}

// -----
nabla.mesh @m <["a"=2]>
func.func @bad(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error @+1 {{nabla.factors = 'm n -> m': expected a dimension, found ''}}
  %y = nabla.custom_call @own(%x) {nabla.factors = "m n -> m"} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----
// A dimension of which a reshape keeps a part alone is not padded: it is whole.
// CHECK-LABEL: @parts_of_reshape(%arg0: tensor<2x8xf32>
nabla.mesh @m <["a"=8]>
func.func @parts_of_reshape(%x: tensor<6x8xf32> {nabla.sharding = #nabla.sharding<@m, [{"a":(2)4}, {}]>}) -> tensor<4x12xf32> {
  // CHECK: %[[G:.*]] = nabla.all_gather %arg0 dim = 0 axes = ["a:(2)4"] : tensor<2x8xf32> -> tensor<8x8xf32>
  // CHECK: %[[S:.*]] = nabla.slice %[[G]] starts = [0, 0] limits = [6, -1] : tensor<8x8xf32>
  // CHECK: nabla.reshape %[[S]] : tensor<6x8xf32> -> tensor<4x12xf32>
  %y = nabla.reshape %x : tensor<6x8xf32> -> tensor<4x12xf32>
  return %y : tensor<4x12xf32>
}

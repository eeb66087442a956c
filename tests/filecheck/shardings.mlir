// Meshes, shardings and collectives: the text that is read is printed again.
// RUN: nabla-opt "%s" | nabla-opt | FileCheck "%s"

// CHECK: nabla.mesh @m <["data"=2, "model"=12]> {bandwidth = [1.000000e+10, 5.000000e+10], latency = [2.000000e-06, 9.9999999999999995E-7]}
nabla.mesh @m <["data"=2, "model"=12]> {bandwidth = [1.0e10, 5.0e10], latency = [2.0e-6, 1.0e-6]}

// CHECK-LABEL: @annotated
// CHECK-SAME: #nabla.sharding<@m, [{"data"}, {"model":(2)2, ?}p1], replicated = {"model":(4)3}, partial = {"model":(1)2: sum}>
// CHECK-SAME: #nabla.sharding<@m, []>
func.func @annotated(%x: tensor<8x16xf32> {nabla.sharding = #nabla.sharding< @m, [ {"data"} , {"model":(2)2,?}p1 ], replicated={"model":(4)3}, partial = {"model":(1)2: sum} >}, %s: tensor<f32> {nabla.sharding = #nabla.sharding<@m, []>}) -> tensor<8x16xf32> {
  // CHECK: nabla.sharding_constraint %{{.*}} : tensor<8x16xf32> sharding = #nabla.sharding<@m, [{}, {"data", "model":(1)2}]>
  %y = nabla.sharding_constraint %x : tensor<8x16xf32> sharding = #nabla.sharding<@m, [{}, {"data", "model":(1)2}]>
  return %y : tensor<8x16xf32>
}

// CHECK-LABEL: @collectives
func.func @collectives(%x: tensor<8x24xf32>, %n: tensor<?x24xf32>) attributes {nabla.partitioned = @m} {
  // CHECK: nabla.all_reduce sum %{{.*}} axes = ["model"] : tensor<8x24xf32>
  %a = nabla.all_reduce sum %x axes = ["model"] : tensor<8x24xf32>
  // CHECK: nabla.all_gather %{{.*}} dim = 1 axes = ["model"] : tensor<8x24xf32> -> tensor<8x288xf32>
  %b = nabla.all_gather %x dim = 1 axes = ["model"] : tensor<8x24xf32> -> tensor<8x288xf32>
  // CHECK: nabla.all_gather %{{.*}} dim = 0 axes = ["data"] : tensor<?x24xf32> -> tensor<?x24xf32>
  %c = nabla.all_gather %n dim = 0 axes = ["data"] : tensor<?x24xf32> -> tensor<?x24xf32>
  // CHECK: nabla.all_slice %{{.*}} dim = 1 axes = ["data", "model"] : tensor<8x24xf32> -> tensor<8x1xf32>
  %d = nabla.all_slice %x dim = 1 axes = ["data", "model"] : tensor<8x24xf32> -> tensor<8x1xf32>
  // CHECK: nabla.reduce_scatter max %{{.*}} dim = 0 axes = ["model:(3)4"] : tensor<8x24xf32> -> tensor<2x24xf32>
  %e = nabla.reduce_scatter max %x dim = 0 axes = ["model:(3)4"] : tensor<8x24xf32> -> tensor<2x24xf32>
  // CHECK: nabla.all_to_all %{{.*}} split = 0 concat = 1 axes = ["data"] : tensor<8x24xf32> -> tensor<4x48xf32>
  %f = nabla.all_to_all %x split = 0 concat = 1 axes = ["data"] : tensor<8x24xf32> -> tensor<4x48xf32>
  // CHECK: nabla.permute %{{.*}} pairs = [0, 1] axes = ["data"] : tensor<8x24xf32>
  %g = nabla.permute %x pairs = [0, 1] axes = ["data"] : tensor<8x24xf32>
  // CHECK: nabla.broadcast %{{.*}} from = 11 axes = ["model"] : tensor<8x24xf32>
  %h = nabla.broadcast %x from = 11 axes = ["model"] : tensor<8x24xf32>
  // CHECK: nabla.axis_index axes = ["data", "model"] : tensor<i64>
  %i = nabla.axis_index axes = ["data", "model"] : tensor<i64>
  return
}

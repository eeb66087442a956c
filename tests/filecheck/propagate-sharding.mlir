// From annotations of a few values to all.
// RUN: nabla-opt "%s" --nabla-propagate-sharding --split-input-file --verify-diagnostics | FileCheck "%s"

// Megatron from one weight.
// CHECK-LABEL: @layer
// CHECK-SAME: %arg1: tensor<32x16xf32> {nabla.sharding = #nabla.sharding<@m, [{"model"}, {}]>}
// CHECK-SAME: %arg2: tensor<32x16xf32> {nabla.sharding = #nabla.sharding<@m, [{"model"}, {}]>}
// CHECK-SAME: %arg3: tensor<16x32xf32> {nabla.sharding = #nabla.sharding<@m, [{}, {"model"}]>}
nabla.mesh @m <["model"=2]>
func.func @layer(%x: tensor<4x16xf32>, %gate: tensor<32x16xf32> {nabla.sharding = #nabla.sharding<@m, [{"model"}, {}]>}, %up: tensor<32x16xf32>, %down: tensor<16x32xf32>) -> tensor<4x16xf32> {
  // CHECK: nabla.linear %arg0, %arg1 {nabla.shardings = [#nabla.sharding<@m, [{}, {"model"}]>]}
  %g = nabla.linear %x, %gate : tensor<4x16xf32>, tensor<32x16xf32>
  %u = nabla.linear %x, %up : tensor<4x16xf32>, tensor<32x16xf32>
  // CHECK: nabla.mul {{.*}} {nabla.shardings = [#nabla.sharding<@m, [{}, {"model"}]>]}
  %h = nabla.mul %g, %u : tensor<4x32xf32>, tensor<4x32xf32>
  // CHECK: nabla.linear %{{[0-9]+}}, %arg3 : tensor
  %y = nabla.linear %h, %down : tensor<4x32xf32>, tensor<16x32xf32>
  return %y : tensor<4x16xf32>
}

// -----
// Heads of queries come in groups; a reshape divides the first factor.
// CHECK-LABEL: @heads
// CHECK-SAME: %arg1: tensor<2x32x8xf32> {nabla.sharding = #nabla.sharding<@m, [{"model":(1)2}, {}, {}]>}
// CHECK-SAME: %arg2: tensor<2x32x8xf32> {nabla.sharding = #nabla.sharding<@m, [{"model":(1)2}, {}, {}]>}
nabla.mesh @m <["model"=4]>
func.func @heads(%x: tensor<1x64xf32> {nabla.sharding = #nabla.sharding<@m, [{}, {"model"}]>}, %k: tensor<2x32x8xf32>, %v: tensor<2x32x8xf32>) -> tensor<1x64xf32> {
  // CHECK: nabla.reshape %arg0 {nabla.shardings = [#nabla.sharding<@m, [{"model"}, {}, {}]>]}
  %q = nabla.reshape %x : tensor<1x64xf32> -> tensor<8x1x8xf32>
  // CHECK: nabla.attention {{.*}} {nabla.shardings = [#nabla.sharding<@m, [{"model"}, {}, {}]>]}
  %a = nabla.attention %q, %k, %v : tensor<8x1x8xf32>, tensor<2x32x8xf32>, tensor<2x32x8xf32>
  // CHECK: nabla.reshape {{.*}} {nabla.shardings = [#nabla.sharding<@m, [{}, {"model"}]>]}
  %y = nabla.reshape %a : tensor<8x1x8xf32> -> tensor<1x64xf32>
  return %y : tensor<1x64xf32>
}

// -----
// A closed dimension stays; an open one grows; priorities decide who is first.
// CHECK-LABEL: @closed
// CHECK-SAME: %arg1: tensor<8x8xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}
nabla.mesh @m <["a"=2, "b"=2]>
func.func @closed(%x: tensor<8x8xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {"b"}p1]>}, %y: tensor<8x8xf32> {nabla.sharding = #nabla.sharding<@m, [{?}, {}]>}) -> tensor<8x8xf32> {
  // CHECK: nabla.add {{.*}} {nabla.shardings = [#nabla.sharding<@m, [{"a"}, {"b"}]>]}
  %z = nabla.add %x, %y : tensor<8x8xf32>, tensor<8x8xf32>
  return %z : tensor<8x8xf32>
}

// -----
// Rows of 172 are no whole blocks of 64 when they are divided: they stay whole.
// CHECK-LABEL: @packed
// CHECK-SAME: %arg0: !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>> {nabla.sharding = #nabla.sharding<@m, [{"model"}, {}]>}
// CHECK-SAME: %arg1: !nabla.implicit<64x172xf32, #nabla.nf4<block = 64>>)
nabla.mesh @m <["model"=2]>
func.func @packed(%w: !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>> {nabla.sharding = #nabla.sharding<@m, [{"model"}, {}]>}, %v: !nabla.implicit<64x172xf32, #nabla.nf4<block = 64>> {nabla.sharding = #nabla.sharding<@m, [{}, {"model"}]>}) {
  return
}

// -----
// A dense size that is not divided evenly is padded.
// CHECK-LABEL: @padded
// CHECK-SAME: %arg0: tensor<24xf32> {nabla.sharding = #nabla.sharding<@m, [{"model"}]>}
nabla.mesh @m <["model"=16]>
func.func @padded(%x: tensor<24xf32> {nabla.sharding = #nabla.sharding<@m, [{"model"}]>}) {
  return
}

// -----
// Packed arrays are not: three of four factors of 2 divide 24 rows.
// CHECK-LABEL: @sub_axis
// CHECK-SAME: %arg0: !nabla.implicit<24x64xf32, #nabla.nf4<block = 64>> {nabla.sharding = #nabla.sharding<@m, [{"model":(1)8}, {}]>}
nabla.mesh @m <["model"=16]>
func.func @sub_axis(%x: !nabla.implicit<24x64xf32, #nabla.nf4<block = 64>> {nabla.sharding = #nabla.sharding<@m, [{"model"}, {}]>}) {
  return
}

// -----
// Carries of a loop, what its regions yield, and slices of what it goes over.
// CHECK-LABEL: @loop
// CHECK-SAME: %arg0: tensor<8xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}]>}, %arg1: tensor<?x8xf32> {nabla.sharding = #nabla.sharding<@m, [{}, {"a"}]>}
nabla.mesh @m <["a"=2]>
func.func @loop(%h: tensor<8xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}]>}, %xs: tensor<?x8xf32>) -> tensor<8xf32> {
  // CHECK: nabla.scan
  // CHECK-SAME: attributes {nabla.shardings = [#nabla.sharding<@m, [{"a"}]>, #nabla.sharding<@m, [{}, {"a"}]>, #nabla.sharding<@m, [{"a"}]>]}
  %r, %ys = nabla.scan init(%h : tensor<8xf32>) over(%xs : tensor<?x8xf32>) -> tensor<8xf32>, tensor<?x8xf32> {
  ^bb0(%s: tensor<8xf32>, %x: tensor<8xf32>):
    // CHECK: nabla.add {{.*}} {nabla.shardings = [#nabla.sharding<@m, [{"a"}]>]}
    %y = nabla.add %s, %x : tensor<8xf32>, tensor<8xf32>
    nabla.yield %y, %y : tensor<8xf32>, tensor<8xf32>
  }
  return %r : tensor<8xf32>
}

// -----
// Through a function that is called, to its results.
// CHECK-LABEL: @caller
// CHECK-SAME: %arg0: tensor<8xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}]>})
nabla.mesh @m <["a"=2]>
func.func @caller(%x: tensor<8xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}]>}) -> tensor<8xf32> {
  // CHECK: call @called(%arg0) {nabla.shardings = [#nabla.sharding<@m, [{"a"}]>]}
  %y = func.call @called(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
// CHECK: func.func private @called(%arg0: tensor<8xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}]>}) -> (tensor<8xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}]>})
func.func private @called(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = nabla.exp %x : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----
nabla.mesh @m <["model"=2]>
// expected-error @+1 {{sharding: the sharding has 1 dimensions, the array has 2}}
func.func @rank(%x: tensor<8x8xf32> {nabla.sharding = #nabla.sharding<@m, [{"model"}]>}) {
  return
}

// -----
nabla.mesh @m <["model"=2]>
// expected-error @+1 {{sharding: the module has no mesh @n}}
func.func @other(%x: tensor<8xf32> {nabla.sharding = #nabla.sharding<@n, [{"model"}]>}) {
  return
}

// -----
nabla.mesh @m <["model"=2]>
// expected-error @+1 {{is a second mesh: programs are divided over one}}
nabla.mesh @n <["model"=2]>

// -----
// Without a mesh annotations are dropped.
// CHECK-LABEL: @no_mesh(%arg0: tensor<8xf32>)
func.func @no_mesh(%x: tensor<8xf32> {nabla.sharding = #nabla.sharding<@m, [{"model"}]>}) {
  return
}

// -----
// Lists of shardings of operations of other dialects are checked here.
nabla.mesh @m <["a"=2]>
func.func private @g(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
func.func @calls(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{nabla.shardings has 2 shardings, the operation 1 results}}
  %y = func.call @g(%x) {nabla.shardings = [#nabla.sharding<@m, [{"a"}]>, #nabla.sharding<@m, [{}]>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

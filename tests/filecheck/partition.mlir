// The program of one device.
// RUN: nabla-opt "%s" --nabla-propagate-sharding --nabla-manifest --nabla-partition --split-input-file --verify-diagnostics | FileCheck "%s"

// One all_reduce for a pair of products; the manifest says which pieces a rank
// takes: dimension, ranks between neighbours, number.
// CHECK: \22name\22:\22up\22,\22dtype\22:\22F32\22,\22shape\22:[32,16],\22cut\22:[0,1,2]
// CHECK-SAME: \22name\22:\22down\22,\22dtype\22:\22F32\22,\22shape\22:[16,32],\22cut\22:[1,1,2]
// CHECK-SAME: \22ranks\22:2
// CHECK-LABEL: @layer
// CHECK-SAME: (%arg0: tensor<4x16xf32> {{.*}}, %arg1: tensor<16x16xf32> {{.*}}, %arg2: tensor<16x16xf32> {{.*}}) -> tensor<4x16xf32>
// CHECK-SAME: nabla.partitioned = @m
nabla.mesh @m <["model"=2]>
func.func @layer(%x: tensor<4x16xf32>, %up: tensor<32x16xf32> {nabla.name = "up", nabla.sharding = #nabla.sharding<@m, [{"model"}, {}]>}, %down: tensor<16x32xf32> {nabla.name = "down"}) -> tensor<4x16xf32> {
  // CHECK-NEXT: %[[H:.*]] = nabla.linear %arg0, %arg1 : tensor<4x16xf32>, tensor<16x16xf32>
  // CHECK-NEXT: %[[S:.*]] = nabla.silu %[[H]] : tensor<4x16xf32>
  // CHECK-NEXT: %[[Y:.*]] = nabla.linear %[[S]], %arg2 : tensor<4x16xf32>, tensor<16x16xf32>
  // CHECK-NEXT: %[[R:.*]] = nabla.all_reduce sum %[[Y]] axes = ["model"] : tensor<4x16xf32>
  // CHECK-NEXT: nabla.add %arg0, %[[R]] : tensor<4x16xf32>, tensor<4x16xf32>
  %h = nabla.linear %x, %up : tensor<4x16xf32>, tensor<32x16xf32>
  %s = nabla.silu %h : tensor<4x32xf32>
  %y = nabla.linear %s, %down : tensor<4x32xf32>, tensor<16x32xf32>
  %z = nabla.add %x, %y : tensor<4x16xf32>, tensor<4x16xf32>
  return %z : tensor<4x16xf32>
}

// -----
// A packed weight whose rows stay whole: its operand is gathered.
// CHECK-LABEL: @gathered
// CHECK-SAME: %arg1: !nabla.implicit<32x64xf32, #nabla.nf4<block = 64>>, %arg2: !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>>
nabla.mesh @m <["model"=2]>
func.func @gathered(%x: tensor<1x64xf32>, %w: !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>> {nabla.sharding = #nabla.sharding<@m, [{"model"}, {}]>}, %v: !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>>) -> tensor<1x64xf32> {
  // CHECK-NEXT: %[[H:.*]] = nabla.linear %arg0, %arg1 : tensor<1x64xf32>, !nabla.implicit<32x64xf32, #nabla.nf4<block = 64>>
  // CHECK-NEXT: %[[G:.*]] = nabla.all_gather %[[H]] dim = 1 axes = ["model"] : tensor<1x32xf32> -> tensor<1x64xf32>
  // CHECK-NEXT: nabla.linear %[[G]], %arg2
  %h = nabla.linear %x, %w : tensor<1x64xf32>, !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>>
  %y = nabla.linear %h, %v : tensor<1x64xf32>, !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>>
  return %y : tensor<1x64xf32>
}

// -----
// A sum that its user wants divided, and an axis that moves to another
// dimension: never gathered and then sliced.
// CHECK-LABEL: @paths
nabla.mesh @m <["a"=2, "b"=2]>
func.func @paths(%x: tensor<8x16xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {"b"}]>}, %w: tensor<4x16xf32> {nabla.sharding = #nabla.sharding<@m, [{}, {}]>}) -> tensor<8x4xf32> {
  // CHECK-NEXT: %[[W:.*]] = nabla.all_slice %arg1 dim = 1 axes = ["b"] : tensor<4x16xf32> -> tensor<4x8xf32>
  // CHECK-NEXT: %[[Y:.*]] = nabla.linear %arg0, %[[W]] : tensor<4x8xf32>, tensor<4x8xf32>
  // CHECK-NEXT: %[[S:.*]] = nabla.reduce_scatter sum %[[Y]] dim = 1 axes = ["b"] : tensor<4x4xf32> -> tensor<4x2xf32>
  // CHECK-NEXT: %[[M:.*]] = nabla.all_to_all %[[S]] split = 1 concat = 0 axes = ["a"] : tensor<4x2xf32> -> tensor<8x1xf32>
  // CHECK-NEXT: %[[G:.*]] = nabla.all_gather %[[M]] dim = 1 axes = ["b", "a"] : tensor<8x1xf32> -> tensor<8x4xf32>
  // CHECK-NEXT: return %[[G]]
  %y = nabla.linear %x, %w : tensor<8x16xf32>, tensor<4x16xf32>
  %s = nabla.sharding_constraint %y : tensor<8x4xf32> sharding = #nabla.sharding<@m, [{"a"}, {"b"}]>
  %t = nabla.sharding_constraint %s : tensor<8x4xf32> sharding = #nabla.sharding<@m, [{}, {"b", "a"}]>
  return %t : tensor<8x4xf32>
}

// -----
// What moves along a dimension is gathered.
// CHECK-LABEL: @whole
nabla.mesh @m <["a"=2]>
func.func @whole(%x: tensor<8xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}]>}) -> tensor<8xf32> {
  // CHECK-NEXT: %[[G:.*]] = nabla.all_gather %arg0 dim = 0 axes = ["a"] : tensor<4xf32> -> tensor<8xf32>
  // CHECK-NEXT: nabla.flip %[[G]] dims = [0] : tensor<8xf32>
  %y = nabla.flip %x dims = [0] : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----
// The table of a gather is divided along its columns.
// CHECK-LABEL: @table
nabla.mesh @m <["a"=2]>
func.func @table(%w: tensor<16x8xf32> {nabla.sharding = #nabla.sharding<@m, [{}, {"a"}]>}, %i: tensor<3xi64>) -> tensor<3x8xf32> {
  // CHECK-NEXT: %[[R:.*]] = nabla.gather %arg0, %arg1 {{.*}} sizes = [1, 4] : tensor<16x4xf32>, tensor<3xi64>
  // CHECK-NEXT: nabla.all_gather %[[R]] dim = 1 axes = ["a"] : tensor<3x4xf32> -> tensor<3x8xf32>
  %r = nabla.gather %w, %i offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 sizes = [1, 8] : tensor<16x8xf32>, tensor<3xi64>
  return %r : tensor<3x8xf32>
}

// -----
// A packed table that is cut along rows: each device has its rows, or zeros.
// CHECK-LABEL: @packed_table
// CHECK-SAME: %arg0: !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
nabla.mesh @m <["a"=2]>
func.func @packed_table(%w: !nabla.implicit<16x64xf32, #nabla.nf4<block = 64>> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}, %i: tensor<3xi64>) -> tensor<3x64xf32> {
  // CHECK: %[[START:.*]] = nabla.axis_index axes = ["a"]
  // CHECK: %[[R:.*]] = nabla.gather %arg0, %{{.*}} sizes = [1, 64] : !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>, tensor<3xi64>
  // CHECK: %[[S:.*]] = nabla.select %{{.*}}, %[[R]],
  // CHECK: nabla.all_reduce sum %[[S]] axes = ["a"] : tensor<3x64xf32>
  %r = nabla.gather %w, %i offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 sizes = [1, 64] : !nabla.implicit<16x64xf32, #nabla.nf4<block = 64>>, tensor<3xi64>
  return %r : tensor<3x64xf32>
}

// -----
// Components of a packed array that is needed whole are gathered.
// CHECK-LABEL: @packed_whole
nabla.mesh @m <["a"=2]>
func.func @packed_whole(%w: !nabla.implicit<16x64xf32, #nabla.nf4<block = 64>> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}) -> tensor<16x64xf32> {
  // CHECK-NEXT: %[[P:.*]]:2 = nabla.unpack %arg0 : !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
  // CHECK-NEXT: %[[C:.*]] = nabla.reshape %[[P]]#0 : tensor<256xi8> -> tensor<8x32xi8>
  // CHECK-NEXT: %[[G:.*]] = nabla.all_gather %[[C]] dim = 0 axes = ["a"] : tensor<8x32xi8> -> tensor<16x32xi8>
  // CHECK: %[[W:.*]] = nabla.pack {{.*}} -> !nabla.implicit<16x64xf32, #nabla.nf4<block = 64>>
  // CHECK: nabla.flip %[[W]] dims = [0]
  %r = nabla.flip %w dims = [0] : !nabla.implicit<16x64xf32, #nabla.nf4<block = 64>>
  return %r : tensor<16x64xf32>
}

// -----
// Pieces of an array with packed scales have scales of f32: across rows, along
// them, and where a constraint divides the whole array.
// CHECK-LABEL: @packed_scales
// CHECK-SAME: %arg1: !nabla.implicit<8x256xf32, #nabla.nf4<block = 64>>, %arg2: !nabla.implicit<16x128xf32, #nabla.nf4<block = 64>>
// CHECK: nabla.linear %{{.*}}, %arg1
// CHECK-NEXT: nabla.linear %arg0, %arg2
// CHECK-LABEL: @packed_scales_constraint
// CHECK-SAME: scale = #nabla.dynamic8<block = 256>
// CHECK: %[[P:.*]]:2 = nabla.unpack %arg1
// CHECK-NEXT: %[[S:.*]] = nabla.materialize %[[P]]#1
// CHECK-NEXT: %[[C:.*]] = nabla.reshape %[[P]]#0
// CHECK-NEXT: nabla.all_slice %[[C]]
// CHECK: %[[R:.*]] = nabla.reshape %[[S]]
// CHECK-NEXT: nabla.all_slice %[[R]]
// CHECK: nabla.pack {{.*}} -> !nabla.implicit<8x256xf32, #nabla.nf4<block = 64>>
!nested = !nabla.implicit<16x256xf32, #nabla.nf4<block = 64, scale = #nabla.dynamic8<block = 256>>>
nabla.mesh @m <["a"=2]>
func.func @packed_scales(%x: tensor<3x256xf32>, %w: !nested {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}, %v: !nested {nabla.sharding = #nabla.sharding<@m, [{}, {"a"}]>}) -> (tensor<3x16xf32>, tensor<3x16xf32>) {
  %y = nabla.linear %x, %w : tensor<3x256xf32>, !nested
  %z = nabla.linear %x, %v : tensor<3x256xf32>, !nested
  return %y, %z : tensor<3x16xf32>, tensor<3x16xf32>
}
func.func @packed_scales_constraint(%x: tensor<3x256xf32>, %w: !nested {nabla.sharding = #nabla.sharding<@m, [{}, {}]>}) -> tensor<3x16xf32> {
  %c = nabla.sharding_constraint %w : !nested sharding = #nabla.sharding<@m, [{"a"}, {}]>
  %y = nabla.linear %x, %c : tensor<3x256xf32>, !nested
  return %y : tensor<3x16xf32>
}

// -----
// Where scales are packed, or seen as they are, the array stays whole: pieces
// would have other scales.
// CHECK-LABEL: @packed_scales_whole
// CHECK-SAME: %arg1: tensor<8x256xf32>{{.*}}, %arg2: !nabla.implicit<16x256xf32, #nabla.nf4<block = 64, scale = #nabla.dynamic8<block = 256>>>
// CHECK-NEXT: %[[G:.*]] = nabla.all_gather %arg1
// CHECK-NEXT: %[[Q:.*]] = nabla.quantize %[[G]] : tensor<16x256xf32> -> !nabla.implicit<16x256xf32, #nabla.nf4<block = 64, scale = #nabla.dynamic8<block = 256>>>
// CHECK-NEXT: nabla.linear %arg0, %[[Q]]
// CHECK-NEXT: return %{{.*}}, %arg2
!nested = !nabla.implicit<16x256xf32, #nabla.nf4<block = 64, scale = #nabla.dynamic8<block = 256>>>
nabla.mesh @m <["a"=2]>
func.func @packed_scales_whole(%x: tensor<3x256xf32>, %w: tensor<16x256xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}, %v: !nested {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}) -> (tensor<3x16xf32>, !nested) {
  %c = nabla.quantize %w : tensor<16x256xf32> -> !nested
  %y = nabla.linear %x, %c : tensor<3x256xf32>, !nested
  return %y, %v : tensor<3x16xf32>, !nested
}

// -----
// A constraint divides a packed weight: across rows.
// CHECK-LABEL: @packed_constraint
// CHECK-SAME: %arg1: !nabla.implicit<8x256xf32, #nabla.nf4<block = 64>>
// CHECK-NEXT: nabla.linear %arg0, %arg1 : tensor<3x256xf32>, !nabla.implicit<8x256xf32, #nabla.nf4<block = 64>>
nabla.mesh @m <["a"=2]>
func.func @packed_constraint(%x: tensor<3x256xf32>, %w: !nabla.implicit<16x256xf32, #nabla.nf4<block = 64>>) -> tensor<3x16xf32> {
  %c = nabla.sharding_constraint %w : !nabla.implicit<16x256xf32, #nabla.nf4<block = 64>> sharding = #nabla.sharding<@m, [{"a"}, {}]>
  %y = nabla.linear %x, %c : tensor<3x256xf32>, !nabla.implicit<16x256xf32, #nabla.nf4<block = 64>>
  return %y : tensor<3x16xf32>
}

// -----
nabla.mesh @m <["a"=2]>
func.func @packed_rows(%x: tensor<3x256xf32>, %w: !nabla.implicit<15x256xf32, #nabla.nf4<block = 64>>) -> tensor<3x15xf32> {
  // expected-error @+1 {{sharding: dimension 0 of size 15 is not divided by 2; the next size that is: 16}}
  %c = nabla.sharding_constraint %w : !nabla.implicit<15x256xf32, #nabla.nf4<block = 64>> sharding = #nabla.sharding<@m, [{"a"}, {}]>
  %y = nabla.linear %x, %c : tensor<3x256xf32>, !nabla.implicit<15x256xf32, #nabla.nf4<block = 64>>
  return %y : tensor<3x15xf32>
}

// -----
nabla.mesh @m <["a"=2]>
// expected-error @+1 {{result 0 has a sharding: results that are no states are gathered, and have none}}
func.func @result(%x: tensor<8xf32>) -> (tensor<8xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}]>}) {
  return %x : tensor<8xf32>
}

// -----
// Calls pass pieces.
// CHECK-LABEL: @caller
nabla.mesh @m <["a"=2]>
func.func @caller(%x: tensor<8xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}]>}) -> tensor<8xf32> {
  // CHECK-NEXT: %[[Y:.*]] = call @called(%arg0) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: nabla.all_gather %[[Y]]
  %y = func.call @called(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
// CHECK: func.func private @called(%arg0: tensor<4xf32>{{.*}}) -> tensor<4xf32>
func.func private @called(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = nabla.exp %x : tensor<8xf32>
  return %y : tensor<8xf32>
}

// -----
// A carry that takes the value of another one is brought to its own pieces.
// CHECK-LABEL: @swap
nabla.mesh @m <["a"=2, "b"=4]>
func.func @swap(%x: tensor<16xf32>, %y: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  // CHECK: nabla.scan init(%arg0, %arg1 : tensor<2xf32>, tensor<8xf32>)
  // CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<2xf32>, %[[B:.*]]: tensor<8xf32>):
  // CHECK-NEXT: %[[W:.*]] = nabla.all_gather %[[B]] dim = 0 axes = ["b:(2)2"]
  // CHECK-NEXT: %[[C:.*]] = nabla.all_slice %[[W]] dim = 0 axes = ["a", "b"]
  // CHECK-NEXT: %[[V:.*]] = nabla.all_gather %[[A]] dim = 0 axes = ["a", "b"]
  // CHECK-NEXT: %[[D:.*]] = nabla.all_slice %[[V]] dim = 0 axes = ["b:(2)2"]
  // CHECK-NEXT: nabla.yield %[[C]], %[[D]] : tensor<2xf32>, tensor<8xf32>
  %n = arith.constant 3 : index
  %r:2 = nabla.scan init(%x, %y : tensor<16xf32>, tensor<16xf32>) length(%n) -> tensor<16xf32>, tensor<16xf32> {
  ^bb0(%c: tensor<16xf32>, %d: tensor<16xf32>):
    nabla.yield %d, %c : tensor<16xf32>, tensor<16xf32>
  }
  %o = nabla.sharding_constraint %r#0 : tensor<16xf32> sharding = #nabla.sharding<@m, [{"a", "b"}]>
  %p = nabla.sharding_constraint %r#1 : tensor<16xf32> sharding = #nabla.sharding<@m, [{"b":(2)2}]>
  return %o, %p : tensor<16xf32>, tensor<16xf32>
}

// -----
// Row 0 is updated, which index_map does not name: rows are not divided.
// CHECK-LABEL: @first_row
nabla.mesh @m <["a"=2]>
func.func @first_row(%x: tensor<4x6xf32>, %i: tensor<1xi64>, %u: tensor<5xf32>) -> tensor<4x6xf32> {
  // CHECK: nabla.scatter add %{{.*}} : tensor<4x6xf32>, tensor<1xi64>, tensor<5xf32>
  // CHECK-NEXT: %[[S:.*]] = nabla.all_slice
  // CHECK-NEXT: nabla.all_gather %[[S]]
  %y = nabla.scatter add %x, %i, %u offset_dims = [0] collapsed_dims = [0] index_map = [1] vector_dim = 0 : tensor<4x6xf32>, tensor<1xi64>, tensor<5xf32>
  %o = nabla.sharding_constraint %y : tensor<4x6xf32> sharding = #nabla.sharding<@m, [{"a"}, {}]>
  return %o : tensor<4x6xf32>
}

// -----
// Sums of booleans, which are odd or even, and products are joined as such.
// CHECK-LABEL: @product
nabla.mesh @m <["a"=2]>
func.func @product(%x: tensor<8xi1> {nabla.sharding = #nabla.sharding<@m, [{"a"}]>}) -> (tensor<i1>, tensor<i1>) {
  // CHECK: %[[P:.*]] = nabla.reduce prod %arg0 dims = [0] : tensor<4xi1>
  // CHECK-NEXT: nabla.all_reduce prod %[[P]] axes = ["a"] : tensor<i1>
  // CHECK: %[[S:.*]] = nabla.reduce sum %arg0 dims = [0] : tensor<4xi1>
  // CHECK-NEXT: nabla.all_reduce sum %[[S]] axes = ["a"] : tensor<i1>
  %y = nabla.reduce prod %x dims = [0] : tensor<8xi1>
  %s = nabla.reduce sum %x dims = [0] : tensor<8xi1>
  return %y, %s : tensor<i1>, tensor<i1>
}
// -----
// Values that a region of another dialect makes are brought together in it.
nabla.mesh @m <["a"=2]>
// CHECK-LABEL: func.func @foreign_region
// CHECK: scf.if
// CHECK-NEXT: %[[P:.*]] = nabla.all_slice
// CHECK-NEXT: %[[W:.*]] = nabla.all_gather %[[P]] dim = 0 axes = ["a"] : tensor<4xf32> -> tensor<8xf32>
// CHECK-NEXT: scf.yield %[[W]] : tensor<8xf32>
func.func @foreign_region(%x: tensor<8xf32>, %at: tensor<i1>) -> tensor<8xf32> {
  %c = tensor.extract %at[] : tensor<i1>
  %r = scf.if %c -> tensor<8xf32> {
    %y = nabla.sharding_constraint %x : tensor<8xf32> sharding = #nabla.sharding<@m, [{"a"}]>
    scf.yield %y : tensor<8xf32>
  } else {
    scf.yield %x : tensor<8xf32>
  }
  return %r : tensor<8xf32>
}

// -----
// Slices of a packed operand are divided as the array is, whose components cannot
// be exchanged into any other division: the slices are cut instead.
nabla.mesh @m <["a"=2]>
// CHECK-LABEL: func.func @packed_slices
// CHECK-SAME: (%arg0: !nabla.implicit<3x2x16xf16
// CHECK: ^bb0(%[[X:.*]]: tensor<2x16xf16>):
// CHECK-NEXT: %[[P:.*]] = nabla.all_slice %[[X]] dim = 1 axes = ["a"] : tensor<2x16xf16> -> tensor<2x8xf16>
// CHECK-NEXT: nabla.yield %[[P]] : tensor<2x8xf16>
func.func @packed_slices(%w: !nabla.implicit<3x2x16xf16, #nabla.int8<block = 0, blocks = leading, scale = f16>>) -> tensor<3x2x16xf16> {
  %y:1 = nabla.scan over(%w : !nabla.implicit<3x2x16xf16, #nabla.int8<block = 0, blocks = leading, scale = f16>>) -> tensor<3x2x16xf16> {
  ^bb0(%x: tensor<2x16xf16>):
    nabla.yield %x : tensor<2x16xf16>
  }
  %z = nabla.sharding_constraint %y#0 : tensor<3x2x16xf16> sharding = #nabla.sharding<@m, [{}, {}, {"a"}]>
  return %z : tensor<3x2x16xf16>
}

// -----
// A sum is joined into the pieces that its own layout has, where those of the
// nabla.reshard behind it cannot be joined so.
// CHECK-LABEL: @own_pieces
nabla.mesh @m <["a"=4]>
func.func @own_pieces(%x: tensor<8x8xf32> {nabla.sharding = #nabla.sharding<@m, [{}, {"a"}]>}, %w: tensor<8x8xf32> {nabla.sharding = #nabla.sharding<@m, [{}, {"a"}]>}) -> tensor<8x8xf32> {
  // CHECK: %[[Y:.*]] = nabla.linear
  // CHECK-NEXT: %[[P:.*]] = nabla.reduce_scatter sum %[[Y]] dim = 0 axes = ["a"] : tensor<8x8xf32> -> tensor<2x8xf32>
  // CHECK-NOT: nabla.all_reduce
  // CHECK: nabla.exp
  %y = nabla.linear %x, %w {nabla.shardings = [#nabla.sharding<@m, [{"a"}, {}]>]} : tensor<8x8xf32>, tensor<8x8xf32>
  %r = nabla.reshard %y : tensor<8x8xf32> sharding = #nabla.sharding<@m, [{"a":(1)2}, {"a":(2)2}]>
  %e = nabla.exp %r : tensor<8x8xf32>
  return %e : tensor<8x8xf32>
}

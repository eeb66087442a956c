// Pieces with decoded scales are not put together where the packed ones are needed:
// nabla-propagate-sharding leaves such arrays whole, nabla-partition alone refuses.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics --nabla-partition

!nested = !nabla.implicit<16x256xf32, #nabla.nf4<block = 64, scale = #nabla.dynamic8<block = 256>>>
nabla.mesh @m <["a"=2]>
func.func @returned(%x: tensor<3x256xf32>, %w: !nested {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}) -> !nested {
  // expected-error @+1 {{needs a packed array divided as @m, [{}, {}], which is divided as @m, [{"a"}, {}]: its components cannot be exchanged so; annotate it otherwise}}
  return %w : !nested
}

// -----
!nested = !nabla.implicit<16x256xf32, #nabla.nf4<block = 64, scale = #nabla.dynamic8<block = 256>>>
nabla.mesh @m <["a"=2]>
func.func @unpacked(%w: !nested {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}) -> tensor<2048xi8> {
  // expected-error @+1 {{its components cannot be exchanged so}}
  %c:2 = nabla.unpack %w : !nested
  return %c#0 : tensor<2048xi8>
}

// -----
// The same behind a constraint.
!nested = !nabla.implicit<16x256xf32, #nabla.nf4<block = 64, scale = #nabla.dynamic8<block = 256>>>
nabla.mesh @m <["a"=2]>
func.func @behind_a_note(%w: !nested {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}) -> !nested {
  // expected-error @+1 {{its components cannot be exchanged so}}
  %c = nabla.sharding_constraint %w : !nested sharding = #nabla.sharding<@m, [{}, {}]>
  return %c : !nested
}

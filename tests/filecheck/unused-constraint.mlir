// An illegal constraint of packed scales is an error where it stands, also one whose
// value nothing uses: not at another operation.
// RUN: nabla-opt "%s" --verify-diagnostics --nabla-propagate-sharding --nabla-partition

!s = !nabla.implicit<64x192xf32, #nabla.nf4<block = 64, scale = #nabla.dynamic8<block = 256>>>
nabla.mesh @m <["a"=2]>
func.func @illegal(%x: tensor<4x192xf32>, %s: !s {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}) -> tensor<4x64xf32> {
  %y = nabla.linear %x, %s : tensor<4x192xf32>, !s
  // expected-error @+1 {{sharding: pieces of rows of 192 are no whole blocks of 64}}
  %u = nabla.sharding_constraint %s : !s sharding = #nabla.sharding<@m, [{}, {"a"}]>
  return %y : tensor<4x64xf32>
}

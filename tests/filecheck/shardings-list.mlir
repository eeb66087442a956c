// Lists of shardings follow the results: those of a loop of which results are
// dropped, and those that propagation writes, which a scan has also for slices.
// RUN: nabla-opt "%s" --canonicalize | FileCheck "%s" --check-prefix=DROPPED
// RUN: nabla-opt "%s" --nabla-propagate-sharding | FileCheck "%s" --check-prefix=SLICES
// RUN: nabla-opt "%s" --nabla-propagate-sharding --canonicalize --nabla-partition | FileCheck "%s" --check-prefix=PARTS

nabla.mesh @m <["a"=2]>

// The first carry is not used.
// DROPPED-LABEL: @dropped
// DROPPED: nabla.scan init(%{{.*}} : tensor<4xf32>)
// DROPPED-SAME: nabla.shardings = [#nabla.sharding<@m, [{"a"}]>]
// SLICES-LABEL: @dropped
// SLICES: nabla.shardings = [#nabla.sharding<@m, [{}]>, #nabla.sharding<@m, [{"a"}]>, #nabla.sharding<@m, [{"a"}]>]
// PARTS-LABEL: @dropped
// PARTS: nabla.scan init(%{{.*}} : tensor<2xf32>) over(%{{.*}} : tensor<3x2xf32>)
func.func @dropped(%x: tensor<4xf32>, %z: tensor<5xf32>, %s: tensor<3x4xf32>) -> tensor<4xf32> {
  %u, %y = nabla.scan init(%z, %x : tensor<5xf32>, tensor<4xf32>) over(%s : tensor<3x4xf32>) attributes {nabla.shardings = [#nabla.sharding<@m, [{}]>, #nabla.sharding<@m, [{"a"}]>]} -> tensor<5xf32>, tensor<4xf32> {
  ^bb0(%k: tensor<5xf32>, %c: tensor<4xf32>, %i: tensor<4xf32>):
    %d = nabla.add %c, %i : tensor<4xf32>, tensor<4xf32>
    nabla.yield %k, %d : tensor<5xf32>, tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// A custom call without factors, where nothing may be done whole.
// RUN: nabla-opt "%s" --nabla-propagate-sharding --nabla-partition=policy=error --verify-diagnostics
nabla.mesh @m <["a"=2]>
func.func @calls(%x: tensor<4x8xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}) -> tensor<4x8xf32> {
  // expected-error @+1 {{would be done whole by every device: give it the attribute nabla.factors, such as "..., m -> ..., m"}}
  %z = nabla.custom_call @other(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}

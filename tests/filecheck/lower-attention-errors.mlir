// What has no kernel is refused where a kernel was asked for.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics --nabla-lower-fused

func.func @wide(%q: tensor<3x257xf32>) -> tensor<3x257xf32> {
  // expected-error @+1 {{'nabla.fused_attention' op has no kernel: a head has more than 256 elements}}
  %y = nabla.fused_attention %q, %q, %q : tensor<3x257xf32>, tensor<3x257xf32>, tensor<3x257xf32>
  return %y : tensor<3x257xf32>
}

// -----

func.func @doubles(%q: tensor<3x8xf64>) -> tensor<3x8xf64> {
  // expected-error @+1 {{'nabla.fused_attention' op has no kernel: q, k and v are not tensors of f32, f16 or bf16}}
  %y = nabla.fused_attention %q, %q, %q : tensor<3x8xf64>, tensor<3x8xf64>, tensor<3x8xf64>
  return %y : tensor<3x8xf64>
}

// Element-wise operations and reductions of packed arrays: one warning for each
// operation, with a count.
// RUN: nabla-opt "%s" --nabla-dispatch --verify-diagnostics -o /dev/null

!w = !nabla.implicit<4x5xf32, #nabla.nf4<block = 64>>

func.func @one(%w: !w) {
  // expected-warning @+1 {{'nabla.abs' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %0 = nabla.abs %w : !w
  %1 = nabla.abs %w : !w
  // expected-warning @+1 {{'nabla.sign' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %4 = nabla.sign %w : !w
  %5 = nabla.sign %w : !w
  // expected-warning @+1 {{'nabla.exp' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %6 = nabla.exp %w : !w
  %7 = nabla.exp %w : !w
  // expected-warning @+1 {{'nabla.log' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %8 = nabla.log %w : !w
  %9 = nabla.log %w : !w
  // expected-warning @+1 {{'nabla.log1p' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %10 = nabla.log1p %w : !w
  %11 = nabla.log1p %w : !w
  // expected-warning @+1 {{'nabla.sqrt' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %12 = nabla.sqrt %w : !w
  %13 = nabla.sqrt %w : !w
  // expected-warning @+1 {{'nabla.rsqrt' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %14 = nabla.rsqrt %w : !w
  %15 = nabla.rsqrt %w : !w
  // expected-warning @+1 {{'nabla.sin' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %16 = nabla.sin %w : !w
  %17 = nabla.sin %w : !w
  // expected-warning @+1 {{'nabla.cos' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %18 = nabla.cos %w : !w
  %19 = nabla.cos %w : !w
  // expected-warning @+1 {{'nabla.tan' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %20 = nabla.tan %w : !w
  %21 = nabla.tan %w : !w
  // expected-warning @+1 {{'nabla.acos' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %22 = nabla.acos %w : !w
  %23 = nabla.acos %w : !w
  // expected-warning @+1 {{'nabla.atanh' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %24 = nabla.atanh %w : !w
  %25 = nabla.atanh %w : !w
  // expected-warning @+1 {{'nabla.tanh' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %26 = nabla.tanh %w : !w
  %27 = nabla.tanh %w : !w
  // expected-warning @+1 {{'nabla.erf' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %28 = nabla.erf %w : !w
  %29 = nabla.erf %w : !w
  // expected-warning @+1 {{'nabla.sigmoid' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %30 = nabla.sigmoid %w : !w
  %31 = nabla.sigmoid %w : !w
  // expected-warning @+1 {{'nabla.floor' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %32 = nabla.floor %w : !w
  %33 = nabla.floor %w : !w
  // expected-warning @+1 {{'nabla.ceil' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %34 = nabla.ceil %w : !w
  %35 = nabla.ceil %w : !w
  // expected-warning @+1 {{'nabla.round' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %36 = nabla.round %w : !w
  %37 = nabla.round %w : !w
  // expected-warning @+1 {{'nabla.trunc' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %38 = nabla.trunc %w : !w
  %39 = nabla.trunc %w : !w
  // expected-warning @+1 {{'nabla.gelu' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %40 = nabla.gelu %w : !w
  %41 = nabla.gelu %w : !w
  // expected-warning @+1 {{'nabla.is_nan' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %42 = nabla.is_nan %w : !w
  %43 = nabla.is_nan %w : !w
  // expected-warning @+1 {{'nabla.is_inf' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %44 = nabla.is_inf %w : !w
  %45 = nabla.is_inf %w : !w
  // expected-warning @+1 {{'nabla.relu' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %46 = nabla.relu %w : !w
  %47 = nabla.relu %w : !w
  // expected-warning @+1 {{'nabla.silu' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %48 = nabla.silu %w : !w
  %49 = nabla.silu %w : !w
  // expected-warning @+1 {{'nabla.argmax' op materializes 1 operand of #nabla.nf4<block = 64>, 20 elements: no rule takes it}}
  %50 = nabla.argmax %w dim = 1 : !w
  // expected-warning @+1 {{'nabla.argmin' op materializes 1 operand of #nabla.nf4<block = 64>, 20 elements: no rule takes it}}
  %51 = nabla.argmin %w dim = 1 : !w
  // expected-warning @+1 {{'nabla.logsumexp' op materializes 1 operand of #nabla.nf4<block = 64>, 20 elements: no rule takes it}}
  %52 = nabla.logsumexp %w dim = 1 : !w
  // expected-warning @+1 {{'nabla.cumsum' op materializes 1 operand of #nabla.nf4<block = 64>, 20 elements: no rule takes it}}
  %53 = nabla.cumsum %w dim = 1 : !w
  // expected-warning @+1 {{'nabla.softmax' op materializes 1 operand of #nabla.nf4<block = 64>, 20 elements: no rule takes it}}
  %54 = nabla.softmax %w dim = 1 : !w
  // expected-warning @+1 {{'nabla.log_softmax' op materializes 1 operand of #nabla.nf4<block = 64>, 20 elements: no rule takes it}}
  %55 = nabla.log_softmax %w dim = 1 : !w
  // expected-warning @+1 {{'nabla.convert' op materializes 1 operand of #nabla.nf4<block = 64>, 20 elements: the result is a tensor}}
  %56 = nabla.convert %w : !w -> tensor<4x5xf16>
  // expected-warning @+1 {{'nabla.reduce' op materializes 5 operands of #nabla.nf4<block = 64>, 100 elements: no rule takes it}}
  %57 = nabla.reduce sum %w dims = [1] : !w
  %58 = nabla.reduce prod %w dims = [1] : !w
  %59 = nabla.reduce min %w dims = [1] : !w
  %60 = nabla.reduce mean %w dims = [1] : !w
  %61 = nabla.reduce max %w dims = [1] : !w
  return
}

func.func @two(%w: !w, %x: tensor<4x5xf32>, %c: tensor<4x5xi1>) {
  // expected-warning @+1 {{'nabla.add' op materializes 3 operands of #nabla.nf4<block = 64>, 60 elements: no rule takes it}}
  %0 = nabla.add %w, %w : !w, !w
  %1 = nabla.add %x, %w : tensor<4x5xf32>, !w
  // expected-warning @+1 {{'nabla.sub' op materializes 3 operands of #nabla.nf4<block = 64>, 60 elements: no rule takes it}}
  %2 = nabla.sub %w, %w : !w, !w
  %3 = nabla.sub %x, %w : tensor<4x5xf32>, !w
  // expected-warning @+1 {{'nabla.mul' op materializes 3 operands of #nabla.nf4<block = 64>, 60 elements: no rule takes it}}
  %4 = nabla.mul %w, %w : !w, !w
  %5 = nabla.mul %x, %w : tensor<4x5xf32>, !w
  // expected-warning @+1 {{'nabla.div' op materializes 3 operands of #nabla.nf4<block = 64>, 60 elements: no rule takes it}}
  %6 = nabla.div %w, %w : !w, !w
  %7 = nabla.div %x, %w : tensor<4x5xf32>, !w
  // expected-warning @+1 {{'nabla.mod' op materializes 3 operands of #nabla.nf4<block = 64>, 60 elements: no rule takes it}}
  %8 = nabla.mod %w, %w : !w, !w
  %9 = nabla.mod %x, %w : tensor<4x5xf32>, !w
  // expected-warning @+1 {{'nabla.pow' op materializes 3 operands of #nabla.nf4<block = 64>, 60 elements: no rule takes it}}
  %10 = nabla.pow %w, %w : !w, !w
  %11 = nabla.pow %x, %w : tensor<4x5xf32>, !w
  // expected-warning @+1 {{'nabla.maximum' op materializes 3 operands of #nabla.nf4<block = 64>, 60 elements: no rule takes it}}
  %12 = nabla.maximum %w, %w : !w, !w
  %13 = nabla.maximum %x, %w : tensor<4x5xf32>, !w
  // expected-warning @+1 {{'nabla.minimum' op materializes 3 operands of #nabla.nf4<block = 64>, 60 elements: no rule takes it}}
  %14 = nabla.minimum %w, %w : !w, !w
  %15 = nabla.minimum %x, %w : tensor<4x5xf32>, !w
  // expected-warning @+1 {{'nabla.compare' op materializes 1 operand of #nabla.nf4<block = 64>, 20 elements: no rule takes it}}
  %16 = nabla.compare lt %w, %x : !w, tensor<4x5xf32>
  // expected-warning @+1 {{'nabla.select' op materializes 2 operands of #nabla.nf4<block = 64>, 40 elements: no rule takes it}}
  %17 = nabla.select %c, %w, %w : tensor<4x5xi1>, !w, !w
  return
}

// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

func.func @every(%h: tensor<4xf32>, %l: index) -> tensor<4xf32> {
  // expected-error@+1 {{remat = N keeps every N-th step's carries, N from 1 on}}
  %r = nabla.scan init(%h : tensor<4xf32>) length(%l) remat = 0 -> tensor<4xf32> {
  ^bb0(%s: tensor<4xf32>):
    nabla.yield %s : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// -----

func.func @steps(%a: tensor<i64>, %p: i1) -> tensor<i64> {
  // expected-error@+1 {{max_steps is a number of steps, from 0 on}}
  %r = nabla.while(%a) : tensor<i64> max_steps = -1 cond {
  ^bb0(%x: tensor<i64>):
    nabla.condition %p, %x : i1, tensor<i64>
  } do {
  ^bb0(%x: tensor<i64>):
    nabla.yield %x : tensor<i64>
  }
  return %r : tensor<i64>
}

// -----

func.func @results(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{region #0 hands on tensor<4xf32> as result #0, which is tensor<3xf32>}}
  %r = nabla.remat -> tensor<3xf32> {
    nabla.yield %x : tensor<4xf32>
  }
  return %x : tensor<4xf32>
}

// -----

func.func @alone(%x: tensor<4xf32>) {
  // expected-error@+2 {{failed to infer returned types}}
  // expected-error@+1 {{has 1 to 64 values, and behind them the one that they wait for}}
  "nabla.barrier"(%x) : (tensor<4xf32>) -> ()
  return
}

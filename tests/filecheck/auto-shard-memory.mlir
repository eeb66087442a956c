// What the limit of nabla-auto-shard counts: arguments, results, and values
// between them as long as they are used. An exchange takes a second, so that
// nothing is divided that need not be.
// RUN: nabla-opt "%s" --nabla-auto-shard=memory=3145732 --nabla-propagate-sharding --nabla-partition | FileCheck "%s" --check-prefix=WHOLE
// RUN: nabla-opt "%s" --nabla-auto-shard=memory=3145731 --nabla-propagate-sharding --nabla-partition | FileCheck "%s" --check-prefix=DIVIDED
// RUN: nabla-opt "%s" --nabla-auto-shard --remarks-filter=nabla-auto-shard -o /dev/null 2>&1 | FileCheck "%s" --check-prefix=REMARK

// Arrays of 1 MiB: the argument and two of its softmaxes are held at a time, the
// first is not held any more where the third is computed. The result has 4 bytes.
// WHOLE-LABEL: @one_after_the_other(
// WHOLE-SAME: %arg0: tensor<512x512xf32>)
// WHOLE-NOT: axes =
// WHOLE: return
// DIVIDED-LABEL: @one_after_the_other(
// DIVIDED: axes =
// REMARK: a device holds 3145732 bytes, of which arguments are 1048576
nabla.mesh @m <["model"=2]> {latency = [1.0]}
func.func @one_after_the_other(%x: tensor<512x512xf32>) -> tensor<f32> {
  %a = nabla.softmax %x dim = 0 : tensor<512x512xf32>
  %b = nabla.softmax %a dim = 1 : tensor<512x512xf32>
  %c = nabla.softmax %b dim = 0 : tensor<512x512xf32>
  %s = nabla.reduce sum %c dims = [0, 1] : tensor<512x512xf32>
  return %s : tensor<f32>
}

// All is halved, without exchanges: the argument, the state, and one array, since
// an elementwise operation writes over what nothing uses later. A
// state is written where it lies.
// WHOLE-LABEL: @in_place(
// WHOLE-NOT: axes =
// WHOLE: return
// DIVIDED-LABEL: @in_place(
// DIVIDED-NOT: axes =
// DIVIDED: return
// REMARK: a device holds 1572864 bytes, of which arguments are 1048576
func.func @in_place(%x: tensor<512x512xf32>, %s: tensor<512x512xf32> {nabla.state = "s"}) -> (tensor<512x512xf32> {nabla.state = "s"}) {
  %a = nabla.softmax %x dim = 0 : tensor<512x512xf32>
  %b = nabla.exp %a : tensor<512x512xf32>
  %c = nabla.add %s, %b : tensor<512x512xf32>, tensor<512x512xf32>
  return %c : tensor<512x512xf32>
}

// Notes without results hold nothing, and nothing is held for them: as without
// them.
// WHOLE-LABEL: @noted(
// WHOLE-SAME: %arg0: tensor<512x512xf32>)
// WHOLE-NOT: axes =
// WHOLE: return
// REMARK: a device holds 3145732 bytes, of which arguments are 1048576
func.func @noted(%x: tensor<512x512xf32>) -> tensor<f32> {
  %a = nabla.softmax %x dim = 0 : tensor<512x512xf32>
  nabla.sharding_group %a group = 0 : tensor<512x512xf32>
  nabla.inspect_sharding @seen %a : tensor<512x512xf32>
  %b = nabla.softmax %a dim = 1 : tensor<512x512xf32>
  %c = nabla.softmax %b dim = 0 : tensor<512x512xf32>
  %s = nabla.reduce sum %c dims = [0, 1] : tensor<512x512xf32>
  return %s : tensor<f32>
}

// Rounds within rounds, more than 2^64 of them, are not none.
// REMARK: a run is modelled as {{[0-9.]+e[+][0-9]+}} s, 16 bytes are exchanged
func.func @many_rounds(%c: tensor<8xf32>) -> tensor<8xf32> {
  %n = arith.constant 4294967296 : index
  %y = nabla.scan init(%c : tensor<8xf32>) length(%n) -> tensor<8xf32> {
  ^bb0(%s: tensor<8xf32>):
    %z = nabla.scan init(%s : tensor<8xf32>) length(%n) -> tensor<8xf32> {
    ^bb0(%t: tensor<8xf32>):
      %r = nabla.exp %t : tensor<8xf32>
      nabla.yield %r : tensor<8xf32>
    }
    nabla.yield %z : tensor<8xf32>
  }
  return %y : tensor<8xf32>
}

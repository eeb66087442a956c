// What is not saved runs again behind nabla.barrier, which cse does not see
// through: with save=dots or none, in nabla.remat, in scans with remat.
// RUN: nabla-opt "%s" --nabla-vjp="function=layers save=dots" --cse | FileCheck "%s" --check-prefixes=LAYERS,DOTS
// RUN: nabla-opt "%s" --nabla-vjp="function=layers save=none" --cse | FileCheck "%s" --check-prefixes=LAYERS,NONE
// RUN: nabla-opt "%s" --nabla-vjp="function=layers" --cse | FileCheck "%s" --check-prefixes=ALL
// RUN: nabla-opt "%s" --nabla-vjp="function=region" --cse | FileCheck "%s" --check-prefix=REGION
// RUN: nabla-opt "%s" --nabla-vjp="function=region" --nabla-simplify --cse | FileCheck "%s" --check-prefix=OPEN
// RUN: nabla-opt "%s" --nabla-jvp="function=region" | FileCheck "%s" --check-prefix=TANGENT
// RUN: nabla-opt "%s" --nabla-vjp="function=loop" | FileCheck "%s" --check-prefix=LOOP
// RUN: nabla-opt "%s" --nabla-vjp="function=until" | FileCheck "%s" --check-prefix=UNTIL
// RUN: nabla-opt "%s" --nabla-lower-control | FileCheck "%s" --check-prefix=STEPS
// RUN: nabla-opt "%s" --nabla-vjp="function=packed wrt=x save=none" --nabla-dispatch=policy=error --nabla-lower-control --nabla-lower-implicit | FileCheck "%s" --check-prefix=PACKED

// The forward's operations stay before the first barrier.
// LAYERS-LABEL: func.func @layers.vjp(
// LAYERS: %[[P:.*]] = nabla.dot_general %arg0, %arg1
// LAYERS: %[[T:.*]] = nabla.tanh %[[P]]
// LAYERS: nabla.exp %[[T]]
// DOTS: %[[S:.*]] = nabla.barrier %[[P]], %arg2
// DOTS-NOT: nabla.dot_general %{{.*}} contracting = [1] x [1]
// DOTS: %[[T2:.*]] = nabla.tanh %[[S]]
// NONE: %[[S:.*]]:2 = nabla.barrier %arg0, %arg1, %arg2
// NONE: %[[P2:.*]] = nabla.dot_general %[[S]]#0, %[[S]]#1 contracting = [1] x [1]
// NONE: %[[T2:.*]] = nabla.tanh %[[P2]]
// LAYERS: %[[E2:.*]] = nabla.exp %[[T2]]
// LAYERS: nabla.mul %arg2, %[[E2]]
// LAYERS-NOT: nabla.barrier
// LAYERS-LABEL: func.func @region(
// ALL-LABEL: func.func @layers.vjp(
// ALL-COUNT-1: nabla.exp
// ALL-NOT: nabla.barrier
// ALL-NOT: nabla.exp
// ALL-LABEL: func.func @region(
func.func @layers(%x: tensor<?x4xf32>, %w: tensor<8x4xf32>) -> tensor<?x8xf32> {
  %0 = nabla.linear %x, %w : tensor<?x4xf32>, tensor<8x4xf32>
  %1 = nabla.tanh %0 : tensor<?x8xf32>
  %2 = nabla.exp %1 : tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}

// REGION-LABEL: func.func @region.vjp(
// REGION: %[[R:.*]] = nabla.remat -> tensor<4xf32> {
// REGION: nabla.exp %arg0
// REGION: %[[G:.*]]:2 = nabla.remat -> tensor<4xf32>, tensor<4xf32> {
// REGION: %[[B:.*]]:2 = nabla.barrier %arg0, %arg1, %arg2
// REGION: nabla.exp %[[B]]#0
// REGION: return %[[R]], %[[G]]#0, %[[G]]#1
// OPEN-LABEL: func.func @region.vjp(
// OPEN-NOT: nabla.remat
// OPEN: nabla.exp %arg0
// OPEN: nabla.barrier
// OPEN: nabla.exp
// TANGENT-LABEL: func.func @region.jvp(
// TANGENT-NOT: nabla.remat
// TANGENT: return
func.func @region(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nabla.remat -> tensor<4xf32> {
    %1 = nabla.exp %x : tensor<4xf32>
    %2 = nabla.mul %1, %w : tensor<4xf32>, tensor<4xf32>
    %3 = nabla.sin %2 : tensor<4xf32>
    nabla.yield %3 : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// 33 chunks of 3 steps and one left over: 33 carries are kept, then 3.
// LOOP-LABEL: func.func @loop.vjp(
// LOOP: nabla.scan {{.*}} -> tensor<4xf32>, tensor<33x4xf32>
// LOOP: nabla.scan {{.*}}tensor<1x4xf32>)
// LOOP: nabla.scan {{.*}} reverse
// LOOP: nabla.scan {{.*}}tensor<33x4xf32>{{.*}}tensor<33x3x4xf32>) reverse
// LOOP: nabla.scan {{.*}} -> tensor<4xf32>, tensor<3x4xf32>
// LOOP: nabla.scan {{.*}}tensor<3x4xf32>{{.*}} reverse
func.func @loop(%h: tensor<4xf32>, %xs: tensor<100x4xf32>) -> tensor<4xf32> {
  %r = nabla.scan init(%h : tensor<4xf32>) over(%xs : tensor<100x4xf32>) remat = 3 -> tensor<4xf32> {
  ^bb0(%s: tensor<4xf32>, %x: tensor<4xf32>):
    %0 = nabla.mul %s, %x : tensor<4xf32>, tensor<4xf32>
    %1 = nabla.sin %0 : tensor<4xf32>
    nabla.yield %1 : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// UNTIL-LABEL: func.func @until.vjp(
// UNTIL-NOT: nabla.while
// UNTIL: nabla.scan
// UNTIL: nabla.cond
// STEPS-LABEL: func.func @until(
// STEPS: %[[N:.*]] = arith.constant 5 : index
// STEPS: scf.while (%{{.*}} = %arg0, %[[I:.*]] = %{{.*}}) : (tensor<f32>, index) -> (tensor<f32>, index)
// STEPS: %[[L:.*]] = arith.cmpi slt, %[[I]], %[[N]] : index
// STEPS: arith.andi %{{.*}}, %[[L]] : i1
// STEPS: arith.addi
func.func @until(%a: tensor<f32>, %limit: tensor<f32>) -> tensor<f32> {
  %r = nabla.while(%a) : tensor<f32> max_steps = 5 cond {
  ^bb0(%x: tensor<f32>):
    %p = nabla.compare lt %x, %limit : tensor<f32>, tensor<f32>
    nabla.condition %p, %x : tensor<i1>, tensor<f32>
  } do {
  ^bb0(%x: tensor<f32>):
    %y = nabla.mul %x, %x : tensor<f32>, tensor<f32>
    nabla.yield %y : tensor<f32>
  }
  return %r : tensor<f32>
}

// A packed array passes a barrier as its components.
// PACKED-LABEL: func.func @packed.vjp(
// PACKED: nabla.barrier %{{.*}} : tensor<{{.*}}xf32>, tensor<{{.*}}xi8>, tensor<{{.*}}xf32>, tensor<4x64xf32>
!w = !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>>
func.func @packed(%x: tensor<4x64xf32> {nabla.name = "x"}, %w: !w) -> tensor<4x64xf32> {
  %0 = nabla.linear %x, %w : tensor<4x64xf32>, !w
  %1 = nabla.tanh %0 : tensor<4x64xf32>
  %2 = nabla.exp %1 : tensor<4x64xf32>
  return %2 : tensor<4x64xf32>
}

// The number of steps is known: so is the size of what is stacked.
// RUN: nabla-opt "%s" --nabla-vjp="function=counted" | FileCheck "%s" --check-prefix=COUNTED
// COUNTED-LABEL: func.func @counted.vjp(
// COUNTED: nabla.scan init(%arg0 : tensor<4xf32>) length(%{{.*}}) -> tensor<4xf32>, tensor<40x4xf32>
// COUNTED: nabla.scan {{.*}} length(%{{.*}}) -> tensor<4xf32>, tensor<25x4xf32>
func.func @counted(%h: tensor<4xf32>) -> tensor<4xf32> {
  %l = arith.constant 1000 : index
  %r = nabla.scan init(%h : tensor<4xf32>) length(%l) remat = 25 -> tensor<4xf32> {
  ^bb0(%s: tensor<4xf32>):
    %0 = nabla.sin %s : tensor<4xf32>
    nabla.yield %0 : tensor<4xf32>
  }
  return %r : tensor<4xf32>
}

// What functions cost, exactly; the program stays as it is.
// RUN: nabla-opt "%s" --nabla-cost -o /dev/null 2>&1 | FileCheck "%s" --match-full-lines --strict-whitespace
// RUN: nabla-opt "%s" --nabla-cost=unknown=10 -o /dev/null 2>&1 | FileCheck "%s" --check-prefix=TEN
// RUN: nabla-opt "%s" --nabla-cost=format=json -o /dev/null 2>&1 | FileCheck "%s" --check-prefix=JSON
// RUN: nabla-opt "%s" --nabla-cost 2>/dev/null | FileCheck "%s" --check-prefix=SAME
// RUN: not nabla-opt "%s" --nabla-cost=format=xml 2>&1 | FileCheck "%s" --check-prefix=FORMAT
// RUN: not nabla-opt "%s" --nabla-cost=unknown=-1 2>&1 | FileCheck "%s" --check-prefix=NUMBER
// FORMAT: nabla-cost: format 'xml' is none of text, json
// NUMBER: nabla-cost: unknown is a number of at most 15 digits, not '-1'

// 4096 codes of half a byte and 128 scales are 2560 bytes: the packed size.
//      CHECK:@packed
// CHECK-NEXT:operation                         count           operations           bytes read        bytes written
// CHECK-NEXT:nabla.linear                          1                 8192                 2816                  256
// CHECK-NEXT:nabla.transpose                       1                    0                    0                    0
// CHECK-NEXT:nabla.dot_general                     1                 8192                 2816                  256
// CHECK-NEXT:nabla.add                             1                   64                  512                  256
// CHECK-NEXT:total                                 4                16448                 6144                  768
// CHECK-NEXT:sizes that are not known count as 1
// CHECK-EMPTY:
// TEN-LABEL: @packed
// TEN: nabla.linear 1 81920 5120 2560
// JSON: {"function":"packed","unknown_size":1,"others":0,"costs":[{"operation":"nabla.linear","count":1,"operations":8192,"bytes_read":2816,"bytes_written":256},
// JSON-SAME: "total":{"operation":"total","count":4,"operations":16448,"bytes_read":6144,"bytes_written":768}}
// SAME: func.func @packed(
// SAME: nabla.linear
!w = !nabla.implicit<64x64xf32, #nabla.nf4<block = 32>>
func.func @packed(%x: tensor<?x64xf32>, %w: !w) -> tensor<?x64xf32> {
  %y = nabla.linear %x, %w : tensor<?x64xf32>, !w
  %t = nabla.transpose %w permutation = [1, 0] : !w
  %z = nabla.dot_general %x, %t contracting = [1] x [0] : tensor<?x64xf32>, !nabla.implicit<64x64xf32, #nabla.nf4<block = 32>, view<64x64, strides = [1, 64], offset = 0>>
  %s = nabla.add %y, %z : tensor<?x64xf32>, tensor<?x64xf32>
  return %s : tensor<?x64xf32>
}

// A scan of 5 rounds, each with a call; the costlier branch; a while once.
// CHECK-NEXT:@flow
// CHECK-NEXT:operation                         count           operations           bytes read        bytes written
// CHECK-NEXT:nabla.exp                             5                  320                   80                   80
// CHECK-NEXT:nabla.neg                             1                    4                   16                   16
// CHECK-NEXT:nabla.mul                             1                    4                   32                   16
// CHECK-NEXT:nabla.add                             1                    4                   32                   16
// CHECK-NEXT:total                                 8                  332                  160                  128
// CHECK-NEXT:each while counts as one round
// CHECK-NEXT:each cond counts as its costliest branch
// CHECK-NEXT:1 operation of other dialects not counted
// CHECK-EMPTY:
func.func @flow(%x: tensor<4xf32>, %p: i1) -> tensor<4xf32> {
  %n = arith.constant 5 : index
  %a = nabla.scan init(%x : tensor<4xf32>) length(%n) -> tensor<4xf32> {
  ^bb0(%c: tensor<4xf32>):
    %y = func.call @callee(%c) : (tensor<4xf32>) -> tensor<4xf32>
    nabla.yield %y : tensor<4xf32>
  }
  %b = nabla.cond %p : i1 -> tensor<4xf32> {
    nabla.yield %a : tensor<4xf32>
  }, {
    %y = nabla.neg %a : tensor<4xf32>
    %z = nabla.mul %y, %a : tensor<4xf32>, tensor<4xf32>
    nabla.yield %z : tensor<4xf32>
  }
  %d = nabla.while(%b) : tensor<4xf32> cond {
  ^bb0(%c: tensor<4xf32>):
    nabla.condition %p, %c : i1, tensor<4xf32>
  } do {
  ^bb0(%c: tensor<4xf32>):
    %y = nabla.add %c, %c : tensor<4xf32>, tensor<4xf32>
    nabla.yield %y : tensor<4xf32>
  }
  return %d : tensor<4xf32>
}

// CHECK-NEXT:@callee
// CHECK-NEXT:operation                         count           operations           bytes read        bytes written
// CHECK-NEXT:nabla.exp                             1                   64                   16                   16
// CHECK-NEXT:total                                 1                   64                   16                   16
// CHECK-EMPTY:
func.func private @callee(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nabla.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// Of a table, the rows that are taken; attention with 8 keys; a convolution; a
// scan over inputs of which the length is not known.
// CHECK-NEXT:@others
// CHECK-NEXT:operation                         count           operations           bytes read        bytes written
// CHECK-NEXT:nabla.gather                          1                    0                   36                  256
// CHECK-NEXT:nabla.attention                       1                  576                  288                   32
// CHECK-NEXT:nabla.conv_general                    1                  216                  168                   36
// CHECK-NEXT:nabla.neg                             1                    4                   16                   16
// CHECK-NEXT:total                                 4                  796                  508                  340
// CHECK-NEXT:sizes that are not known count as 1
// CHECK-EMPTY:
// TEN-LABEL: @others
// TEN: nabla.neg 10 40 160 160
func.func @others(%w: !nabla.implicit<128x64xf32, #nabla.int4<block = 64>>, %i: tensor<1xi64>, %q: tensor<2x4xf32>, %k: tensor<8x4xf32>, %v: tensor<8x4xf32>, %image: tensor<1x1x5x6xf32>, %kernel: tensor<1x1x3x4xf32>, %xs: tensor<?x4xf32>) {
  %r = nabla.gather %w, %i offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 sizes = [1, 64] : !nabla.implicit<128x64xf32, #nabla.int4<block = 64>>, tensor<1xi64>
  %a = nabla.attention %q, %k, %v : tensor<2x4xf32>, tensor<8x4xf32>, tensor<8x4xf32>
  %c = nabla.conv_general %image, %kernel low = [0, 0] : tensor<1x1x5x6xf32>, tensor<1x1x3x4xf32>
  %n = nabla.scan over(%xs : tensor<?x4xf32>) -> tensor<?x4xf32> {
  ^bb0(%x: tensor<4xf32>):
    %y = nabla.neg %x : tensor<4xf32>
    nabla.yield %y : tensor<4xf32>
  }
  return
}

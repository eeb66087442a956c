/* Declarations of services that functions made as text call; their meaning is
 * in transforms/abi/lower_services.c. */
#ifndef NABLA_TRANSFORMS_IR_SERVICE_TEXT_H
#define NABLA_TRANSFORMS_IR_SERVICE_TEXT_H

/* Kernel, its words, the number of items, the fewest that a thread takes. */
#define NABLA_PARALLEL_TEXT \
  "func.func private @nabla_parallel(!llvm.ptr, !llvm.ptr, i64, i64)\n"

/* Two sizes that have to be equal, and where. */
#define NABLA_REQUIRE_EQUAL_TEXT \
  "func.func private @nabla_require_equal(i64, i64, !llvm.ptr)\n"

#endif

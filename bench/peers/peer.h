/* A peer is a library that multiplies by packed weights too. For nabla-bench
 * each is a program of its own, nabla-peer-NAME, that scripts/peers builds of
 * peer.c and NAME.c against what it has installed; nothing of it is linked into
 * nabla-bench.
 *
 *   nabla-peer-NAME --version              prints what peer_describe does
 *   nabla-peer-NAME FORMAT N K M THREADS COPIES
 *   nabla-peer-NAME ops
 *
 * The second prints "ready BYTES VERSION", BYTES those of one weight as stored,
 * or "no REASON". Then it reads "run FIRST COUNT" lines: COUNT products y = x
 * W^T with the weights FIRST, FIRST + 1 ... of COPIES equal ones, in a circle,
 * and prints a line of COUNT times in nanoseconds. The end of its input ends
 * it. With "ops", where it has that, it reads "open OP TYPE THREADS A B C D"
 * lines first: an operation of bench/nabla-bench/ops.def and its shape, until
 * the next one; answers are the same. Times are of the calling thread's CPU
 * with one thread, else of the clock.
 */
#ifndef NABLA_PEER_H
#define NABLA_PEER_H

#include <stddef.h>
#include <stdint.h>

typedef struct peer_problem {
  const char *format;
  uint64_t n, k, m;
  uint32_t threads, copies;
} peer_problem;

/* Prints version, instruction sets and choices into `out`, one line. */
void peer_describe(char *out, size_t size);

/* Makes copies of a weight and one x. 1, or 0 with a reason in `why`. */
int peer_open(const peer_problem *problem, uint64_t *out_bytes, char *why,
              size_t size);

/* One product with the weight `copy`; 0 if it failed. */
int peer_run(uint32_t copy);

/* For implementations. Zeroed memory at a page, in huge pages where there are
 * some; ends the program when there is none. */
void *peer_memory(size_t bytes);

/* Fills memory with bytes that look random. */
void peer_fill(void *data, size_t bytes);

/* The same with floats in [-1, 1). */
void peer_fill_floats(float *out, size_t count);

/* The upper half of an f32: bf16, rounded towards zero. */
uint16_t peer_bf16(float value);

#endif

/* What compiled code calls at run time: one table, passed to every entry point,
 * so that an object has no undefined symbol but memcpy, memmove and memset. */
#ifndef NABLA_SERVICES_H
#define NABLA_SERVICES_H

#include <stdint.h>

#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the table and of the calling conventions below. It changes when a
 * member changes; members are only ever appended within a version. */
#define NABLA_SERVICES_VERSION 1u

/* Alignment, in bytes, of all that `allocate` returns. */
#define NABLA_SERVICES_ALIGNMENT 64u

/* A bit of `grain`: all of [0, count) is needed also by a caller that wants a
 * part of the result alone. */
#define NABLA_PARALLEL_WHOLE ((uint64_t)1 << 63)

/* A kernel: computes the part [begin, end) of its result. `arguments` are
 * words whose meaning is the kernel's own (lib/kernels/fused_kernel.h).
 * Kernels allocate nothing, lock nothing and call nothing. */
typedef void (*nabla_kernel_function)(const uint64_t *arguments, uint64_t begin,
                                      uint64_t end);

/* Why compiled code stopped: the codes that it passes to `fail`. */
typedef enum nabla_failure {
  NABLA_FAILURE_NO_MEMORY = 1, /* allocate returned NULL                      */
  NABLA_FAILURE_SHAPE = 2,     /* two dimensions that must agree do not: first
                                  and second are their sizes                  */
  NABLA_FAILURE_DIVISION = 3,  /* integers divided by zero: first is how many */
  NABLA_FAILURE_CALL = 4,      /* a custom call: reported by `call` itself    */
  NABLA_FAILURE_PLAN = 5,      /* parts of planned memory overlap, or one was
                                  written past its end: reported by
                                  `part_begin` and `part_end` themselves      */
} nabla_failure;

/* Bits of the `bytes` of part_begin and part_end, which are a multiple of
 * NABLA_SERVICES_ALIGNMENT without them: so many bytes behind the part belong
 * to no other; the part is a function's that is called, which places parts of
 * its own there. */
#define NABLA_PART_HAS_RED_ZONE ((uint64_t)1)
#define NABLA_PART_IS_OF_CALL   ((uint64_t)2)

typedef struct nabla_services nabla_services;

/* Byte offsets of the members are part of the ABI of version 1. */
struct nabla_services {
  uint32_t version; /* offset 0: NABLA_SERVICES_VERSION */
  uint32_t size;    /* offset 4: sizeof(nabla_services) */
  void *self;       /* offset 8: the implementer's      */
  /* Offset 16. Set to 1 by `fail`; compiled code reads it after a call that may
   * fail. */
  uint32_t *failed;
  /* Offset 24. Returns `bytes` (0 is allowed) at NABLA_SERVICES_ALIGNMENT, not
   * zeroed, or NULL. Called on the thread that runs the entry point only, as
   * are all that follow. */
  void *(*allocate)(const nabla_services *services, uint64_t bytes);
  /* Offset 32. Frees what allocate returned; NULL is allowed. */
  void (*release)(const nabla_services *services, void *memory);
  /* Offset 40. Calls `kernel` until [0, count) is covered once, on any threads,
   * and returns when all calls have. Ranges begin at multiples of `grain`, of
   * which NABLA_PARALLEL_WHOLE is no part. */
  void (*parallel)(const nabla_services *services, nabla_kernel_function kernel,
                   const uint64_t *arguments, uint64_t count, uint64_t grain);
  /* Offset 48. Records the first failure of a run. `where` is static text that
   * names the operation, or NULL. */
  void (*fail)(const nabla_services *services, uint32_t failure,
               const char *where, int64_t first, int64_t second);
  /* Offset 56. Makes custom call number `site` of the manifest. `words`: the
   * numbers of arguments and of results, then for each its dtype (nabla_dtype),
   * rank, address and dimensions. A failure is as one of `fail`. */
  void (*call)(const nabla_services *services, uint64_t site,
               const uint64_t *words);
  /* Offset 64; NULL unless a profile is taken (nabla/profile.h), and called by
   * code that was compiled for it only, which looks at `size` first. What runs
   * from here on is `what`, static text that names a kernel or loops, of
   * `bytes` read and written and `flops`; NULL: what has no name. */
  void (*profile)(const nabla_services *services, const char *what,
                  uint64_t bytes, uint64_t flops);
  /* Offset 72. As `allocate`, for result number `index` of the function that
   * was entered: memory that the implementer gives out for it, such as the
   * caller's array. It is not released. Code looks at `size` first, here and
   * below. */
  void *(*result)(const nabla_services *services, uint64_t index,
                  uint64_t bytes);
  /* Offsets 80 and 88; NULL unless plans are checked. The `bytes` at `memory`,
   * a part of a block that was allocated, begin to hold an array, or hold it no
   * longer. Arrays that overlap in time do not overlap in memory. */
  void (*part_begin)(const nabla_services *services, void *memory,
                     uint64_t bytes);
  void (*part_end)(const nabla_services *services, void *memory,
                   uint64_t bytes);
  /* Offset 96; NULL unless a profile is taken, and called by code that was
   * compiled for it only. The `bytes` at `memory`, which were allocated, asked
   * for by `result` or begun as a part, hold the array of `what`, static text
   * that names an operation, until they are released, the part ends, or the
   * run does. */
  void (*hold)(const nabla_services *services, void *memory, uint64_t bytes,
               const char *what);
};

/* An entry point of compiled code. arguments[i] and results[i] point to a
 * buffer descriptor as MLIR lays it out for a ranked tensor:
 *   { void *allocated; void *aligned; int64_t offset; int64_t sizes[rank];
 *     int64_t strides[rank]; }
 * Argument descriptors are read; those of results are written, and own what
 * `allocated` points to (`release` it). When `*services->failed` is 1 on
 * return, results are undefined, and all that was allocated and not released
 * is the caller's to release. */
typedef void (*nabla_entry_function)(const nabla_services *services,
                                     void *const *arguments,
                                     void *const *results);

/* Symbols of an object: NABLA_ENTRY_PREFIX then the function's name, and the
 * NUL-terminated JSON text that describes them (docs/JSON.md, "manifest"). */
#define NABLA_ENTRY_PREFIX    "nabla_entry_"
#define NABLA_MANIFEST_SYMBOL "nabla_manifest"

#ifdef __cplusplus
}
#endif

#endif

/* Looking at checkpoints: verification, differences, statistics. */
#ifndef NABLA_MEASURE_H
#define NABLA_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#include "nabla/checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NABLA_VERIFY_READER 160

typedef struct nabla_verify_summary {
  uint32_t files;
  uint64_t tensors, packed;
  uint64_t bytes;       /* whole files */
  uint64_t problems;    /* all of them, also those not reported */
  uint64_t unsupported; /* of these: only this build cannot decode it */
  /* How Hugging Face's transformers reads a folder with a config.json; "" for
   * anything else, and where that contradicts the tensors. */
  char reader[NABLA_VERIFY_READER];
} nabla_verify_summary;

/* Problems that nabla_verify reports one by one; it counts the rest. */
#define NABLA_VERIFY_MAX_PROBLEMS 1000u

/* Verifies a checkpoint: everything that nabla_checkpoint_open checks, the
 * index's total_size, that every packed tensor can be decoded, that every scale
 * is finite, and in a folder that config.json agrees with what is packed. It
 * goes on behind a problem: other shards, entries of the index, weights; of a
 * file's header, and of a weight's scales and codes, it reports the first (with
 * their number), and what it cannot judge any more it leaves out.
 * @param problem  called on the calling thread for each problem found; may be
 *                 NULL
 * @return NABLA_OK, or the code of the first problem with its diag */
NABLA_API NABLA_MUST_USE nabla_status
nabla_verify(const char *path, const nabla_environment *environment,
             void (*problem)(void *self, const nabla_diag *diag), void *self,
             nabla_verify_summary *out, nabla_diag *diag);

/* Difference of b from a, over the n values of a tensor. */
typedef struct nabla_difference {
  const char *name; /* valid during the callback */
  uint64_t elements;
  double max_abs;       /* max |a-b|                                     */
  double mean_abs;      /* mean |a-b|                                    */
  double mean_rel;      /* mean |a-b|/|a| over a != 0                    */
  double rel_rmse;      /* sqrt(sum (a-b)^2 / sum a^2); 0 when a == b;
                           infinite when only a is all zero              */
  double cosine;        /* of a and b as vectors; 1 when a == b          */
  uint64_t not_finite;  /* positions where a or b is NaN or infinite and
                           the two differ in bits                        */
  const char *a_stored; /* "F32", "nf4", ...                            */
  const char *b_stored;
  const char *problem; /* NULL; or "only in A", "only in B", "shapes differ",
                          and for tensors that are not float "dtypes
                          differ", "bytes differ"                       */
} nabla_difference;

typedef struct nabla_difference_summary {
  uint64_t tensors, equal; /* equal: same values in every position */
  uint64_t problems;       /* rows with `problem`                  */
  double worst_rel_rmse;
} nabla_difference_summary;

/* Compares by values: packed tensors are decoded. `row` is called for each
 * tensor of a in order, then for those only in b; non-zero stops with
 * NABLA_CANCELLED. Sums are in a fixed order: figures do not depend on the
 * number of threads. */
NABLA_API NABLA_MUST_USE nabla_status
nabla_compare(const nabla_checkpoint *a, const nabla_checkpoint *b,
              const nabla_environment *environment,
              int (*row)(void *self, const nabla_difference *difference),
              void *self, nabla_difference_summary *out, nabla_diag *diag);

/* Statistics of the values of one tensor, decoded when packed. */
typedef struct nabla_statistics {
  uint64_t elements, zeros, nan, infinite;
  double min, max, mean, std, absmax; /* over finite values; 0 if none   */
  uint64_t scales;                    /* packed only                     */
  double scale_min, scale_max;
  uint64_t codes[256]; /* how often each code occurs (4-bit: 16 used)    */
} nabla_statistics;

/* @return NABLA_OK, NABLA_UNSUPPORTED (not a float tensor, or not decodable),
 *         NABLA_IO, NABLA_NO_MEMORY, NABLA_CANCELLED */
NABLA_API NABLA_MUST_USE nabla_status
nabla_tensor_statistics(const nabla_checkpoint *checkpoint, size_t tensor,
                        const nabla_environment *environment,
                        nabla_statistics *out, nabla_diag *diag);

#ifdef __cplusplus
}
#endif

#endif

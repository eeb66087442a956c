/* Reads the description of compiled functions: the manifest that every object
 * carries (docs/JSON.md). It may come from a damaged cache, so all of it is
 * checked: keys, counts, shapes, and the sizes that follow from them. */
#ifndef NABLA_RUNTIME_PROGRAM_MANIFEST_H
#define NABLA_RUNTIME_PROGRAM_MANIFEST_H

#include "lib/base/memory.h"
#include "lib/runtime/program/calls.h"
#include "nabla/comm.h"
#include "nabla/executable.h"
#include "quant/formats/name_index.h"

/* Limits, each refused with NABLA_TOO_LARGE. */
#define NABLA_MANIFEST_MAX           (16u << 20) /* bytes of text      */
#define NABLA_MANIFEST_MAX_FUNCTIONS 4096u
#define NABLA_MANIFEST_MAX_PORTS     4096u /* arguments, and results, of each */
#define NABLA_MANIFEST_MAX_CALLS     4096u

#define NABLA_MANIFEST_MAX_CUTS 16u /* of an argument */

/* A dimension of an argument is divided among `size` ranks that are `stride`
 * apart. Of several that name one dimension the first makes the largest
 * pieces. */
typedef struct nabla_cut_place {
  uint32_t dim, stride, size;
} nabla_cut_place;

/* An argument of which each rank has a piece: the port describes the whole. Or
 * a result: the port describes the piece, too. */
typedef struct nabla_argument_cut {
  size_t port; /* its number */
  int is_result;
  nabla_port local;
  uint32_t count;
  nabla_cut_place at[NABLA_MANIFEST_MAX_CUTS];
} nabla_argument_cut;

typedef struct nabla_manifest {
  const nabla_allocator *allocator;
  char *texts; /* all names, NUL-terminated */
  size_t texts_size;
  nabla_signature *functions;
  size_t function_count;
  nabla_port *ports; /* of all functions: arguments, then results */
  size_t port_count;
  nabla_call_site *calls; /* custom calls, by number */
  size_t call_count;
  uint32_t ranks; /* that the program is for; 0: it is for one, and
                     exchanges nothing */
  uint32_t devices[NABLA_COMM_MAX_RANKS]; /* ranks in row-major order of the
                                             mesh */
  int has_devices;                        /* 0: in the order of their numbers */
  nabla_argument_cut *cuts;               /* by port, ascending */
  size_t cut_count;
  /* They own the arrays, and packed results. */
  nabla_buffer function_buffer, port_buffer, packed_buffer, call_buffer,
      cut_buffer;
  nabla_name_index names; /* of the functions   */
} nabla_manifest;

/* @return NABLA_OK, `out` is the caller's to deinit
 *         NABLA_CORRUPT      not what the compiler writes: the diag says where
 *         NABLA_UNSUPPORTED  another ABI, or an encoding that is unknown here
 *         NABLA_TOO_LARGE, NABLA_NO_MEMORY */
NABLA_MUST_USE nabla_status
nabla_manifest_parse(const nabla_allocator *allocator, const char *text,
                     size_t size, nabla_manifest *out, nabla_diag *diag);

void nabla_manifest_deinit(nabla_manifest *manifest);

/* The cut of port `number`, or NULL: each rank has the whole. Thread-safe. */
const nabla_argument_cut *nabla_manifest_cut(const nabla_manifest *manifest,
                                             size_t number);

/* Finds a function. @return its number, or SIZE_MAX. Thread-safe. */
size_t nabla_manifest_find(const nabla_manifest *manifest, const char *name);

/* How many results an array stands for whose first result is `result`: the
 * components of a packed one. */
static inline size_t nabla_port_results(const nabla_port *result) {
  return result->packed ? result->packed->component_count : 1;
}

#endif

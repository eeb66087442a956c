/* The graph that scopes record: arrays (array.c), the nodes that compute them
 * (record.c), scopes (scope.c). */
#ifndef NABLA_ARRAY_GRAPH_H
#define NABLA_ARRAY_GRAPH_H

#include <stdatomic.h>
#include <stdbool.h>

#include "lib/array/recorder.h"
#include "nabla/array.h"

/* An operation with its operands, whose results are pending. It is freed when
 * all of its results were realized or freed. */
typedef struct nabla_node {
  const nabla_recorded *recorded; /* operation, attributes, types          */
  nabla_recorder *recorder;
  uint64_t trace; /* the number of the trace that recorded it, or 0        */
  uint32_t operand_count;
  uint32_t live;   /* results that are pending                             */
  uint64_t walk;   /* the last walk that reached it                        */
  uint32_t number; /* in that walk                                         */
  uint32_t next;   /* in that walk: the operand that is visited next       */
  nabla_array **results; /* NULL where a result was realized or freed      */
  nabla_array *operands[];
} nabla_node;

struct nabla_array {
  /* All references: those of the user, of nodes that have it as operand, and
   * one of the scope in whose list it is. */
  atomic_uint references;
  atomic_uint users;     /* references of the user                         */
  atomic_bool abandoned; /* the user gave up the scope's reference         */
  bool is_weak;          /* a leaf without a dtype of its own              */
  bool is_donated;       /* its memory went to a result of a function      */
  uint64_t trace;        /* not 0: the argument of a trace, without data   */
  _Atomic(nabla_scope *) scope; /* in whose list it is, or NULL            */
  nabla_array *previous, *following; /* in that list                       */
  nabla_node *node;                  /* NULL unless pending                */
  uint32_t index;                    /* among the results of the node      */
  nabla_dense dense; /* the dtype of a packed array: lib/array/packed.h */
  struct nabla_packed_value *packed; /* NULL unless it is packed */
  struct nabla_shards *shards;       /* pieces (shards.h), or NULL: `dense` has
                                        all elements, which nabla_array_whole gives */
  const nabla_allocator *allocator;
  struct nabla_watch *watch;  /* of a debug engine (watch.h), or NULL */
  void (*finish)(void *self); /* NULL, or is called when the array is freed */
  void *finish_self;
  void *owned; /* memory of `dense.data`, or NULL */
  size_t owned_bytes;
};

struct nabla_scope {
  nabla_engine *engine;
  nabla_recorder *recorder; /* shared by the scopes of a thread */
  nabla_scope *parent;
  struct nabla_trace *trace; /* that of which it is a part, or NULL */
  bool is_eager;             /* operations are realized at once     */
  unsigned policy;           /* nabla_array_policy                  */
  nabla_array *arrays;       /* those that it holds */
  nabla_diag failure;        /* the first */
  const void *place;         /* the return address of its call, or NULL */
};

/* Bytes of a node with its lists. */
size_t nabla_node_bytes(const nabla_recorded *recorded);

/* The innermost scope of the calling thread, or NULL. */
nabla_scope *nabla_scope_innermost(void);
/* Makes `scope`, or none, the innermost one of the calling thread; returns that
 * which was. */
nabla_scope *nabla_scope_set_innermost(nabla_scope *scope);
/* Whether `scope` is entered by the calling thread. */
bool nabla_scope_is_open(const nabla_scope *scope);
/* Enters a failure, unless there is one, with the place of the public call. */
void nabla_scope_fail(nabla_scope *scope, const nabla_diag *diag,
                      const void *place);

/* A new array that `scope` holds, without node and data; NULL after a failure
 * of the scope. */
nabla_array *nabla_array_new(nabla_scope *scope);
/* A leaf with the data of `value`, or a copy. NULL after a failure of the
 * scope, which names the public `function`. */
nabla_array *nabla_array_leaf(nabla_scope *scope, const nabla_dense *value,
                              bool is_copied, const char *function,
                              const void *place);
/* Whether an array is nabla_none(). */
bool nabla_is_none(const nabla_array *array);
/* Adds and takes away a reference of a node or of the library. */
void nabla_array_hold(nabla_array *array);
void nabla_array_drop(nabla_array *array);
/* Takes an array out of its scope's list, and drops the scope's reference. */
void nabla_array_leave(nabla_array *array);
/* Moves an array, and the scope's reference, to the list of another scope. */
void nabla_array_move(nabla_array *array, nabla_scope *scope);
/* Drops a pending array's node. */
void nabla_array_detach(nabla_array *array);
/* Allocates the memory of a leaf's elements, aligned to 64 bytes, as
 * `dense.data`. */
NABLA_MUST_USE nabla_status nabla_array_allocate(nabla_array *array,
                                                 nabla_diag *diag);
/* Gives an array the type of `from`, which a run has made, and a copy of its
 * elements. */
NABLA_MUST_USE nabla_status nabla_array_copy(nabla_array *array,
                                             const nabla_dense *from,
                                             nabla_diag *diag);

#endif

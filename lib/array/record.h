/* Recording: from a call of a public function to a node of the graph. Functions
 * are in record.c. */
#ifndef NABLA_ARRAY_RECORD_H
#define NABLA_ARRAY_RECORD_H

#include "lib/array/graph.h"

/* A call of a public function. */
typedef struct nabla_array_call {
  const char *function; /* "nabla_add" */
  const void *place;    /* the return address */
  uint32_t count;       /* the arrays that it was given, for messages */
  nabla_array *const *arrays;
} nabla_array_call;

/* The largest number of operands of an operation. */
#define NABLA_MAX_RECORDED 64

#define NABLA_ARRAY_CALL(name, n, list) \
  {"nabla_" #name, __builtin_return_address(0), n, list}

/* Which dtypes an operation takes. */
typedef enum nabla_dtype_rule {
  NABLA_DTYPES_own,     /* that of the operands */
  NABLA_DTYPES_floats,  /* integers and truth values become f32 */
  NABLA_DTYPES_numbers, /* truth values become i32             */
  NABLA_DTYPES_sums,    /* truth values, i8 and u8 become i32  */
  NABLA_DTYPES_bools,   /* all become truth values             */
} nabla_dtype_rule;

/* Appends "F32[2, n]" to a text of `size` bytes. `trace` gives sizes that are
 * not known their names; NULL: there are none. */
void nabla_array_describe(char *text, size_t size, const nabla_array *array,
                          const struct nabla_trace *trace);

/* Why an array cannot be used by this thread now; NULL if it can. */
const char *nabla_array_objection(const nabla_array *array);
/* Checks the arrays of a call: none is NULL, all may be used in this thread's
 * innermost scope, which is returned; NULL after a failure. */
nabla_scope *nabla_call_begin(const nabla_array_call *site);
/* `scope`, if this thread may record in it; NULL after a failure. */
nabla_scope *nabla_call_in(const nabla_array_call *site, nabla_scope *scope);
/* Enters a failure of the call, "FUNCTION(f32[2, 3], ...): TEXT". */
void nabla_call_fail(const nabla_array_call *site, nabla_scope *scope,
                     nabla_status status, const char *format, ...)
    NABLA_PRINTF(4, 5);

/* Records an operation, whose operands are those of `recording`, and writes its
 * `count` results; false after a failure of the scope. */
bool nabla_record_all(const nabla_array_call *site, nabla_scope *scope,
                      const nabla_recording *recording,
                      nabla_array *const *operands, uint32_t count,
                      nabla_array **out);
/* The same for one result; NULL after a failure. */
nabla_array *nabla_record(const nabla_array_call *site, nabla_scope *scope,
                          const nabla_recording *recording,
                          nabla_array *const *operands);

/* Adds a node of a kind that was found; `out` is NULL after a failure. */
bool nabla_record_recorded(const nabla_array_call *site, nabla_scope *scope,
                           const nabla_recorded *recorded,
                           nabla_array *const *operands, uint32_t count,
                           nabla_array **out);

/* A dtype as an operation with `rule` takes it. */
nabla_dtype nabla_dtype_by(nabla_dtype_rule rule, nabla_dtype dtype);
/* The dtype of the operands of a call together. */
nabla_dtype nabla_call_promote(const nabla_array_call *site,
                               nabla_dtype_rule rule);
/* `x` in another dtype: x itself if it has it. NULL gives NULL. */
nabla_array *nabla_record_convert(const nabla_array_call *site,
                                  nabla_scope *scope, nabla_array *x,
                                  nabla_dtype dtype);
/* The shape that NumPy broadcasts the arrays of a call to; false after a
 * failure. */
bool nabla_call_broadcast(const nabla_array_call *site, nabla_scope *scope,
                          nabla_array_type *out);
/* `x` repeated to a shape: x itself if it has it. NULL gives NULL. */
nabla_array *nabla_record_broadcast(const nabla_array_call *site,
                                    nabla_scope *scope, nabla_array *x,
                                    const nabla_array_type *shape);

#endif

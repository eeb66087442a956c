/* Derivatives of functions: a function beside the one that is differentiated.
 * Functions are defined in derive.c, split.c and wrt.c. */
#ifndef NABLA_TRANSFORMS_AUTODIFF_DERIVE_H
#define NABLA_TRANSFORMS_AUTODIFF_DERIVE_H

#include "transforms/autodiff/varied.h"

/* What a gradient is asked for: an argument, or component a or b of one that is
 * a #nabla.lora. */
typedef struct nabla_wrt {
  intptr_t argument;
  int component; /* 0: the argument itself; else the number in nabla.unpack */
} nabla_wrt;

/* The derivatives that a run of a pass has made. */
typedef struct nabla_derived {
  MlirOperation module;
  struct nabla_derived_row {
    MlirOperation function, made;
    const char *kind; /* "pullback", "jvp" */
    bool *mask;       /* which arguments, then which results, take part */
  } *rows;
  size_t count;
  nabla_value_list dead; /* a result of each operation that is to be erased */
  int depth;             /* of functions that are being made */
} nabla_derived;

void nabla_derived_deinit(nabla_derived *d);

/* Replaces an operation by values; it is erased when the function is complete,
 * since maps have its results. */
void nabla_derived_replace(nabla_derived *d, MlirOperation op,
                           const MlirValue *values);

typedef struct nabla_derive {
  MlirOperation function;
  size_t count;         /* of `wrt` */
  const nabla_wrt *wrt; /* each once */
  const bool *results;  /* which results have cotangents, or tangents that are
                         * given; NULL: all that are arrays of floats */
  bool only;            /* without the results of the function */
  const char *suffix;   /* of the name */
  bool finite;          /* gradients are checked: nabla.check_finite */
  bool exact;           /* an error where the name is taken, else another one */
  bool marked; /* an operation with NABLA_REVERSE_MARK stands between those of
                * the function and those of the pass back; what is not used
                * stays */
} nabla_derive;

#define NABLA_REVERSE_MARK "nabla.reverse"

/* What a backward function is given of the values that it needs: all that it
 * uses; results of products and convolutions alone; none. What it is not given
 * it computes again from the arguments. */
typedef enum nabla_save {
  NABLA_SAVE_ALL,
  NABLA_SAVE_DOTS,
  NABLA_SAVE_NONE
} nabla_save;

/* Makes @f.forward, which returns the results, then what is saved, and
 * @f.backward of the arguments, what is saved, and the cotangents, which
 * returns the gradients. False after an error. */
bool nabla_derive_split(nabla_derived *d, const nabla_derive *how,
                        nabla_save save);

/* Makes the function of the arguments, then cotangents of the results, that
 * returns the results, then the gradients to `wrt`. Null after an error. */
MlirOperation nabla_derive_vjp(nabla_derived *d, const nabla_derive *how);
/* Makes the function of the arguments, then their tangents, that returns the
 * results, then their tangents. */
MlirOperation nabla_derive_jvp(nabla_derived *d, const nabla_derive *how);

/* Reads "x,w.a,2": names (nabla.name) or numbers of arguments of a function;
 * "": all tensors of floats. NULL after an error; to be freed. */
nabla_wrt *nabla_wrt_read(MlirOperation function, const char *text,
                          size_t *out_count);

/* The function of a module that a pass option names, which has one block; null
 * after an error. */
MlirOperation nabla_derive_find(MlirOperation module, const char *name);

#endif

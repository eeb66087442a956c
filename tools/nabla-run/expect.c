/* --expect: compares results with arrays of files. */
#include <math.h>
#include <string.h>

#include "tools/nabla-run/npy.h"
#include "tools/nabla-run/run.h"

/* Values are converted to f32 in pieces of this many. */
#define PIECE 4096

static nabla_status check_alike(const nabla_dense *a, const nabla_dense *b,
                                const char *path, nabla_diag *diag) {
  int alike = a->dtype == b->dtype && a->rank == b->rank;
  for (uint32_t i = 0; alike && i < a->rank; i++)
    alike = a->shape[i] == b->shape[i];
  if (alike && nabla_dtype_is_float(a->dtype)) return NABLA_OK;
  nabla_status status = nabla_fail(
      diag, alike ? NABLA_UNSUPPORTED : NABLA_INVALID_ARGUMENT,
      alike ? "only arrays of floats are compared"
            : "the result has another dtype or shape than what is expected");
  nabla_diag_set_file(diag, path);
  return status;
}

static run_difference difference_of(const nabla_dense *have,
                                    const nabla_dense *want) {
  run_difference out = {0};
  float a[PIECE], b[PIECE];
  double squares = 0, total = 0;
  size_t count = 1, bytes = nabla_dtype_bits(have->dtype) / 8;
  for (uint32_t i = 0; i < have->rank; i++) count *= (size_t)have->shape[i];
  for (size_t at = 0; at < count; at += PIECE) {
    size_t size = count - at < PIECE ? count - at : PIECE;
    nabla_to_f32(have->dtype, (const char *)have->data + at * bytes, size, a);
    nabla_to_f32(want->dtype, (const char *)want->data + at * bytes, size, b);
    for (size_t i = 0; i < size; i++) {
      if (a[i] == b[i] || (isnan(a[i]) && isnan(b[i]))) {
        if (isfinite(b[i])) total += (double)b[i] * (double)b[i];
        continue;
      }
      double d = fabs((double)a[i] - (double)b[i]);
      if (!isfinite(d)) d = INFINITY;
      if (d > out.most) out.most = d;
      squares += d * d;
      total += (double)b[i] * (double)b[i];
    }
  }
  out.relative = squares == 0 ? 0
                 : total > 0  ? sqrt(squares / total)
                              : INFINITY;
  return out;
}

nabla_status run_compare(run *r, nabla_diag *diag) {
  const run_settings *s = r->settings;
  for (size_t i = 0; i < s->expect_count; i++) {
    nabla_dense want = {0};
    NABLA_TRY(npy_read(s->expects[i], &r->environment, &want, diag));
    nabla_status status =
        check_alike(&r->results[i], &want, s->expects[i], diag);
    if (!status) {
      r->differences[i] = difference_of(&r->results[i], &want);
      if (!(r->differences[i].relative <= s->tolerance)) r->differs = 1;
    }
    npy_release(&r->environment, &want);
    NABLA_TRY(status);
  }
  return NABLA_OK;
}

/* Outcomes of every call, and the caller-owned record of why one failed. */
#ifndef NABLA_STATUS_H
#define NABLA_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NABLA_API                 __attribute__((visibility("default")))
#define NABLA_MUST_USE            __attribute__((warn_unused_result))
#define NABLA_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* X(id, number, sentence). Numbers are part of the ABI: rows are appended,
 * never renumbered or removed. */
#define NABLA_STATUS_LIST(X)                                             \
  X(OK, 0, "success")                                                    \
  X(INVALID_ARGUMENT, 1, "the caller asked for something that is wrong") \
  X(CORRUPT, 2, "the input contradicts itself or its format")            \
  X(UNSUPPORTED, 3, "valid, but this build cannot do it")                \
  X(TOO_LARGE, 4, "a declared size overflows or passes a named limit")   \
  X(NO_MEMORY, 5, "an allocation failed")                                \
  X(IO, 6, "the operating system refused a read or a write")             \
  X(CANCELLED, 7, "the caller asked to stop")                            \
  X(NOT_FINITE, 8, "the input holds NaN or infinity")                    \
  X(EXISTS, 9, "the output exists and replacing it was not allowed")

typedef enum nabla_status {
#define NABLA_STATUS_ROW(id, number, sentence) NABLA_##id = number,
  NABLA_STATUS_LIST(NABLA_STATUS_ROW)
#undef NABLA_STATUS_ROW
} nabla_status;

#define NABLA_NO_OFFSET UINT64_MAX

/* Where and why a call failed. It lives on the caller's stack: reporting an
 * error never allocates, so it also works when memory has run out. All texts
 * are NUL-terminated, shortened with "..." when too long, and hold no control
 * bytes (they are shown as \xNN), whatever a hostile file named its tensors. */
typedef struct nabla_diag {
  nabla_status code;
  uint64_t offset;  /* byte offset in `file`; NABLA_NO_OFFSET when none */
  char file[256];   /* path, or ""                                      */
  char tensor[128]; /* tensor name, or ""                               */
  char what[256];   /* one clause that says what is wrong               */
  char next[400];   /* one clause that says what to do now, or ""       */
} nabla_diag;

#define NABLA_DIAG_INIT {NABLA_OK, NABLA_NO_OFFSET, {0}, {0}, {0}, {0}}

/* Clears `diag` (may be NULL), fills `code` and `what`, and returns `code`, so
 * that a failing path is one statement: return nabla_fail(diag, ...).
 * Thread-safe for distinct `diag`; allocates nothing. */
NABLA_API NABLA_MUST_USE nabla_status nabla_fail(nabla_diag *diag,
                                                 nabla_status code,
                                                 const char *format, ...)
    NABLA_PRINTF(3, 4);

/* Each adds context to a diag that nabla_fail filled; `diag` may be NULL.
 * `_file` and `_tensor` keep what an inner call has already set, so that the
 * innermost, most precise context wins. `name` need not be NUL-terminated. */
NABLA_API void nabla_diag_set_file(nabla_diag *diag, const char *path);
NABLA_API void nabla_diag_set_tensor(nabla_diag *diag, const char *name,
                                     uint64_t length);
NABLA_API void nabla_diag_set_offset(nabla_diag *diag, uint64_t offset);
NABLA_API void nabla_diag_set_next(nabla_diag *diag, const char *format, ...)
    NABLA_PRINTF(2, 3);

/* Writes the whole diag as one line, without a newline:
 *   FILE: tensor 'NAME': WHAT (at byte OFFSET); NEXT
 * leaving out what is empty. Always NUL-terminates when `size` > 0.
 * @return the length that the whole text has, as snprintf does */
NABLA_API int nabla_diag_format(const nabla_diag *diag, char *out,
                                uint64_t size);

/* Returns the name of `code` ("CORRUPT"); never NULL. */
NABLA_API const char *nabla_status_name(nabla_status code);

/* Returns the sentence of `code`; never NULL. */
NABLA_API const char *nabla_status_text(nabla_status code);

/* Returns from the calling function when `expr` is not NABLA_OK. */
#define NABLA_TRY(expr)                              \
  do {                                               \
    nabla_status nabla_try_status_ = (expr);         \
    if (nabla_try_status_) return nabla_try_status_; \
  } while (0)

#ifdef __cplusplus
}
#endif

#endif

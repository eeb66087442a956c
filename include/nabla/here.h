/* Debug builds of programs with arrays: the places of failures as file and
 * line, and an error where an array is used after its release. Part of
 * libnabla. nabla/array.h includes it.
 *
 * In a file that is compiled without NDEBUG the functions that record are also
 * macros: where a call fails, they enter file and line of the call as its place
 * (nabla_scope_status). A call that does not fail costs nothing more than a
 * comparison. A call that spans lines has the line that the compiler gives
 * __LINE__. Elsewhere a place is program and offset, which addr2line takes. A
 * file that defines NABLA_NO_HERE before it includes a header of the project
 * has no macros. */
#ifndef NABLA_HERE_H
#define NABLA_HERE_H

#include "nabla/environment.h"
#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* nabla/array.h */
typedef struct nabla_array nabla_array;
typedef struct nabla_engine nabla_engine;
typedef struct nabla_engine_options nabla_engine_options;

/* Enters `file` and `line` as the place of the failure of the last call of this
 * thread, if that was the first of its scope, and has no such place yet.
 * @param file  copied; NULL: nothing is done */
NABLA_API void nabla_here(const char *file, int line);

/* The same as nabla_engine_create, but arrays of the engine are watched: it
 * keeps the last 10,000 that were freed, without their data. A function that
 * gets one of these, or one that was released and is not freed yet, fails with
 * NABLA_INVALID_ARGUMENT, "use after release"; so does a second release. Where
 * NDEBUG is not defined, nabla_engine_create is this function. */
NABLA_API NABLA_MUST_USE nabla_status nabla_engine_create_debug(
    const nabla_engine_options *options, const nabla_environment *environment,
    nabla_engine **out, nabla_diag *diag);

/* ---- macros ---- */

static inline nabla_array *nabla_here_array(nabla_array *result,
                                            const char *file, int line) {
  if (!result) nabla_here(file, line);
  return result;
}

NABLA_MUST_USE static inline nabla_status nabla_here_status(nabla_status result,
                                                            const char *file,
                                                            int line) {
  if (result) nabla_here(file, line);
  return result;
}

/* The value of a call that returns an array or NULL: after a failure the place
 * is that of the macro, also where NDEBUG is defined. The others are for calls
 * that return a status, and nothing. */
#define NABLA_HERE(call)        nabla_here_array((call), __FILE__, __LINE__)
#define NABLA_HERE_STATUS(call) nabla_here_status((call), __FILE__, __LINE__)
#define NABLA_HERE_VOID(call)   ((call), nabla_here(__FILE__, __LINE__))

#if !defined(NDEBUG) && !defined(NABLA_NO_HERE)
#define NABLA_HAS_HERE
#endif

#ifdef __cplusplus
}
#endif

#endif

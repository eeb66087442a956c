/* The version of Nabla: of these headers, and of the library that runs. */
#ifndef NABLA_VERSION_H
#define NABLA_VERSION_H

#include "nabla/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of the headers that a program was compiled with: semantic versioning. While
 * the first number is 0, the second changes with the ABI. */
#define NABLA_VERSION_MAJOR 0
#define NABLA_VERSION_MINOR 1
#define NABLA_VERSION_PATCH 0

#define NABLA_VERSION_TEXT_(major, minor, patch) #major "." #minor "." #patch
#define NABLA_VERSION_TEXT(major, minor, patch) \
  NABLA_VERSION_TEXT_(major, minor, patch)
#define NABLA_VERSION                                          \
  NABLA_VERSION_TEXT(NABLA_VERSION_MAJOR, NABLA_VERSION_MINOR, \
                     NABLA_VERSION_PATCH)

/* Returns NABLA_VERSION of the library that is linked, which may be another one
 * than the header's: static text. */
NABLA_API const char *nabla_version(void);

#ifdef __cplusplus
}
#endif

#endif

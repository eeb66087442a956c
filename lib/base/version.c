/* See nabla/version.h. */
#include "nabla/version.h"

const char *nabla_version(void) { return NABLA_VERSION; }

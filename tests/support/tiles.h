/* Whether this process may use the registers of AMX, for Criterion tests, each
 * of which is a process of its own. */
#ifndef NABLA_TESTS_TILES_H
#define NABLA_TESTS_TILES_H

#include <criterion/criterion.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/base/x86_features.h"

/* ARCH_GET_XCOMP_PERM of asm/prctl.h, and the bit */
enum { TILES_STATE_PERMITTED = 0x1022, TILES_DATA = 18 };

/* 0 where nothing has the permission. */
static inline int tiles_permitted(void) {
#if defined(__x86_64__)
  uint64_t states = 0;
  if (syscall(SYS_arch_prctl, TILES_STATE_PERMITTED, &states)) return 0;
  return (int)(states >> TILES_DATA & 1);
#else
  return 0;
#endif
}

/* Only a CPU that has AMX shows that it is left alone. */
static inline void tiles_needed(void) {
  cr_assert_not(tiles_permitted(), "before anything was made");
  if (!nabla_x86_has(NABLA_X86_AMX_TILE)) cr_skip_test("no AMX");
}

#endif

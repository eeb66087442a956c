/* Detection of the features in x86_features.def on this CPU. A feature with
 * wide registers counts only if the operating system saves these registers, as
 * XCR0 states. */
#include <pthread.h>
#include <string.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "lib/base/x86_features.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#include <immintrin.h>

enum { EAX, EBX, ECX, EDX };

/* Bits of XCR0. */
#define ANY 0u
#define YMM 0x6u
#define ZMM 0xe6u
#define TMM 0x60000u
#define APX 0x80000u

#define AVX10_LEAF 0x24u /* version of AVX10, if leaf 7.1 says it exists */

#define FEATURE(id, name, implied, leaf, subleaf, reg, bit, state, use) \
  {leaf, subleaf, reg, bit, state},
static const struct {
  uint32_t leaf;
  uint8_t subleaf, reg, bit;
  uint32_t state;
} rows[NABLA_X86_FEATURE_COUNT] = {
#include "lib/base/x86_features.def"
};
#undef FEATURE

/* Results of CPUID, kept because each call takes microseconds in a virtual
 * machine. */
typedef struct answers {
  size_t count;
  struct {
    uint32_t leaf, subleaf, regs[4];
  } all[16];
} answers;

/* Returns the result of CPUID; zeros if it has no such leaf. */
static const uint32_t *ask(answers *a, uint32_t leaf, uint32_t subleaf) {
  const size_t room = sizeof a->all / sizeof *a->all;
  for (size_t i = 0; i < a->count; i++)
    if (a->all[i].leaf == leaf && a->all[i].subleaf == subleaf)
      return a->all[i].regs;
  if (a->count == room) a->count--;
  uint32_t *regs = a->all[a->count].regs;
  memset(regs, 0, 4 * sizeof *regs);
  a->all[a->count].leaf = leaf;
  a->all[a->count++].subleaf = subleaf;
  (void)__get_cpuid_count(leaf, subleaf, &regs[EAX], &regs[EBX], &regs[ECX],
                          &regs[EDX]);
  return regs;
}

__attribute__((target("xsave"))) static uint64_t read_state(void) {
  return (uint64_t)_xgetbv(0);
}

/* Returns XCR0, the registers that the operating system saves; 0 without it. */
static uint64_t kept_state(answers *a) {
  return ask(a, 1, 0)[ECX] >> 27 & 1u ? read_state() : 0;
}

static int has(answers *a, size_t row, uint64_t state) {
  const uint32_t leaf = rows[row].leaf, subleaf = rows[row].subleaf;
  if ((state & rows[row].state) != rows[row].state) return 0;
  if (leaf == AVX10_LEAF)
    return (ask(a, 7, 1)[EDX] >> 19 & 1u) &&
           (ask(a, leaf, 0)[EBX] & 0xffu) >= rows[row].bit;
  if (leaf == 7 && ask(a, 7, 0)[EAX] < subleaf) return 0; /* no such subleaf */
  return ask(a, leaf, subleaf)[rows[row].reg] >> rows[row].bit & 1u;
}

static void look(nabla_x86_features *out) {
  answers a = {0};
  const uint64_t state = kept_state(&a);
  for (size_t i = 0; i < NABLA_X86_FEATURE_COUNT; i++)
    out->has[i] = (uint8_t)has(&a, i, state);
}
#else
static void look(nabla_x86_features *out) { *out = (nabla_x86_features){{0}}; }
#endif

/* ---- tiles ---- */

#if defined(__x86_64__) && defined(__linux__)
#define ASK_STATE 0x1023 /* ARCH_REQ_XCOMP_PERM of asm/prctl.h */
#define TILE_DATA 18     /* its bit in XCR0 */

/* Requests the tile registers. Kernels before 5.16 refuse this, and so does any
 * kernel if the signal stack of a thread is too small for 8 KiB more. */
static int ask_for_tiles(void) {
  return syscall(SYS_arch_prctl, ASK_STATE, TILE_DATA) == 0;
}
#else
static int ask_for_tiles(void) { return 0; }
#endif

static int tiles_allowed;

static void ask_once(void) {
  tiles_allowed = nabla_x86_has(NABLA_X86_AMX_TILE) && ask_for_tiles();
}

int nabla_x86_tiles_allowed(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, ask_once);
  return tiles_allowed;
}

/* ---- all features ---- */

static nabla_x86_features here;

static void look_once(void) { look(&here); }

const nabla_x86_features *nabla_x86_features_here(void) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, look_once);
  return &here;
}

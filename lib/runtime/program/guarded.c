/* See guarded.h. The handler reads a table of atomics, and calls nothing that
 * takes a lock. */
#include "lib/runtime/program/guarded.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A guarded mapping, [begin, end) in whole pages. `begin` is 0 where there is
 * none; it is set last and cleared first. */
typedef struct slot {
  atomic_uintptr_t begin, end;
  _Atomic(const void *) owner;
  _Atomic(const char *) path;
  atomic_int is_spent;
} slot;

static slot slots[NABLA_GUARDED_MAX];
static atomic_size_t spent_count;
/* Guards what follows and the making of slots. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static size_t slot_count;
static int is_installed;
static struct sigaction before; /* written before the handler is installed */

/* Finds the mapping of an address, and where it ends. The slot may be given to
 * another one meanwhile: the end is of the mapping that begins there still. */
static slot *find(uintptr_t address, uintptr_t *out_end) {
  for (size_t i = 0; i < NABLA_GUARDED_MAX; i++) {
    const uintptr_t begin = atomic_load(&slots[i].begin);
    if (!begin || address < begin) continue;
    *out_end = atomic_load(&slots[i].end);
    if (address < *out_end && begin == atomic_load(&slots[i].begin))
      return &slots[i];
  }
  return NULL;
}

/* ---- the handler -------------------------------------------------------- */

static void *map_zeros(uintptr_t address, size_t bytes) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
#if defined(SYS_mmap) && defined(__LP64__)
  /* ThreadSanitizer takes mmap for a write to all of the memory. */
  const long result =
      syscall(SYS_mmap, address, bytes, PROT_READ, flags, -1, (off_t)0);
  return result == -1 ? MAP_FAILED : (void *)(uintptr_t)result;
#else
  return mmap((void *)address, bytes, PROT_READ, flags, -1, 0);
#endif
}

/* Zeros from the page of `address` to the end: what a truncated file lacks,
 * and, of one that cannot be read there, what nobody may use either. Threads
 * that read the zeros ask afterwards whether they may: the count, then the slot
 * says so before the zeros are there. */
static int replace(slot *s, uintptr_t address, uintptr_t end, uintptr_t page) {
  address -= address % page;
  atomic_fetch_add(&spent_count, 1);
  if (atomic_exchange(&s->is_spent, 1)) atomic_fetch_sub(&spent_count, 1);
  return map_zeros(address, end - address) != MAP_FAILED;
}

static atomic_uintptr_t page_size;

/* A fault of memory that is not there, as opposed to an address that is not
 * aligned, or a signal that a process sent. */
static int is_missing(const siginfo_t *info) {
  return info->si_code == BUS_ADRERR || info->si_code == BUS_OBJERR ||
         info->si_code == BUS_MCEERR_AR;
}

static void pass_on(int number, siginfo_t *info, void *context) {
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(number, info, context);
    return;
  }
  const int is_sent = info->si_code <= 0;
  if (before.sa_handler == SIG_IGN && is_sent) return;
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(number);
    return;
  }
  /* the default action ends the process when the fault happens again */
  struct sigaction action = {.sa_handler = SIG_DFL};
  sigemptyset(&action.sa_mask);
  (void)sigaction(number, &action, NULL);
  if (is_sent) (void)raise(number); /* at the return, as it is blocked here */
}

static void handle(int number, siginfo_t *info, void *context) {
  const int error = errno;
  const uintptr_t address = (uintptr_t)info->si_addr;
  uintptr_t end = 0;
  slot *s = is_missing(info) ? find(address, &end) : NULL;
  const int done = s && replace(s, address, end, atomic_load(&page_size));
  errno = error;
  if (!done) pass_on(number, info, context);
}

/* Whether `action` is none of anybody's. */
static int is_no_handler(const struct sigaction *action) {
  return !(action->sa_flags & SA_SIGINFO) &&
         (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN);
}

/* Under the lock. A handler over this one is left there: it has this one to
 * pass its faults to. Where somebody has put back that there is none, as
 * Python's faulthandler does, this one is installed again. */
static int install(void) {
  struct sigaction now;
  if (sigaction(SIGBUS, NULL, &now)) return 0;
  if (is_installed && !is_no_handler(&now)) return 1;
  before = now;
  struct sigaction action = {
      .sa_sigaction = handle,
      .sa_flags = SA_SIGINFO | SA_ONSTACK |
                  (before.sa_flags & (SA_RESTART | SA_NODEFER)),
      .sa_mask = before.sa_mask};
  is_installed = !sigaction(SIGBUS, &action, NULL);
  return is_installed;
}

static void uninstall(void) {
  struct sigaction now;
  if (!is_installed || sigaction(SIGBUS, NULL, &now)) return;
  if (!(now.sa_flags & SA_SIGINFO) || now.sa_sigaction != handle) return;
  is_installed = sigaction(SIGBUS, &before, NULL) != 0;
}

/* ---- the table ---------------------------------------------------------- */

static nabla_status add(const void *owner, const nabla_mapping *mapping,
                        const char *path, nabla_diag *diag) {
  const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  const uintptr_t begin = (uintptr_t)mapping->data;
  size_t i = 0;
  while (i < NABLA_GUARDED_MAX && atomic_load(&slots[i].begin)) i++;
  if (i == NABLA_GUARDED_MAX)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "%d files are guarded already, the most of a process",
                      NABLA_GUARDED_MAX);
  atomic_store(&page_size, page);
  if (!install())
    return nabla_fail(diag, NABLA_IO, "cannot install a handler of SIGBUS: %s",
                      strerror(errno));
  atomic_store(&slots[i].is_spent, 0);
  atomic_store(&slots[i].owner, owner);
  atomic_store(&slots[i].path, path);
  atomic_store(&slots[i].end, begin + (mapping->size + page - 1) / page * page);
  atomic_store(&slots[i].begin, begin);
  slot_count++;
  return NABLA_OK;
}

nabla_status nabla_guarded_add(const void *owner, const nabla_mapping *mapping,
                               const char *path, nabla_diag *diag) {
  pthread_mutex_lock(&lock);
  const nabla_status status = add(owner, mapping, path, diag);
  pthread_mutex_unlock(&lock);
  return status;
}

void nabla_guarded_remove(const void *owner) {
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < NABLA_GUARDED_MAX && slot_count; i++) {
    slot *s = &slots[i];
    if (!atomic_load(&s->begin) || atomic_load(&s->owner) != owner) continue;
    atomic_store(&s->begin, 0);
    if (atomic_exchange(&s->is_spent, 0)) atomic_fetch_sub(&spent_count, 1);
    if (!--slot_count) uninstall();
  }
  pthread_mutex_unlock(&lock);
}

/* ---- asking ------------------------------------------------------------- */

int nabla_guarded_is_any_spent(void) { return atomic_load(&spent_count) != 0; }

nabla_status nabla_guarded_check_owner(const void *owner, nabla_diag *diag) {
  for (size_t i = 0; i < NABLA_GUARDED_MAX && nabla_guarded_is_any_spent();
       i++) {
    slot *s = &slots[i];
    if (!atomic_load(&s->begin) || atomic_load(&s->owner) != owner ||
        !atomic_load(&s->is_spent))
      continue;
    const nabla_status status = nabla_fail(
        diag, NABLA_IO,
        "the model is spent: a part of the mapped file could not be read, as "
        "if it was truncated, and zeros took its place");
    nabla_diag_set_file(diag, atomic_load(&s->path));
    nabla_diag_set_next(diag, "drop what was computed, and open it again");
    return status;
  }
  return NABLA_OK;
}

nabla_status nabla_guarded_check(const void *data, nabla_diag *diag) {
  if (!nabla_guarded_is_any_spent()) return NABLA_OK;
  uintptr_t end;
  slot *s = find((uintptr_t)data, &end);
  return s ? nabla_guarded_check_owner(atomic_load(&s->owner), diag) : NABLA_OK;
}

nabla_status nabla_guarded_check_weight(const nabla_weight_desc *weight,
                                        nabla_diag *diag) {
  for (uint32_t i = 0;
       nabla_guarded_is_any_spent() && i < weight->component_count; i++)
    NABLA_TRY(nabla_guarded_check(weight->components[i].data, diag));
  return NABLA_OK;
}

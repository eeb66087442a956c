/* A nabla_os for tests: passes calls to another one, makes chosen calls fail,
 * and counts what stays open. */
#ifndef NABLA_TESTS_FAULTY_OS_H
#define NABLA_TESTS_FAULTY_OS_H

#include <pthread.h>
#include <stdint.h>

#include "nabla/os.h"

typedef enum faulty_call {
  FAULTY_OPEN, /* with open_at; so do other kinds with their _at */
  FAULTY_CLOSE,
  FAULTY_PREAD,
  FAULTY_PWRITE,
  FAULTY_SYNC,
  FAULTY_LOCK,
  FAULTY_INFO,
  FAULTY_PATH_INFO,
  FAULTY_RENAME,
  FAULTY_UNLINK,
  FAULTY_MAKE_FOLDER,
  FAULTY_REMOVE_FOLDER,
  FAULTY_LIST,
  FAULTY_FREE_BYTES,
  FAULTY_START_SYNC,
  FAULTY_SET_MODE,
  FAULTY_PATH_OF,
  FAULTY_ANY, /* for fail_kind: calls of all kinds count */
} faulty_call;

/* Pass &faulty.os to the code under test; it must stay where it was
 * initialised. Set the fields below `inner` after initialising; all 0 (and
 * `space` UINT64_MAX) means that nothing fails. */
typedef struct faulty_os {
  nabla_os os;
  const nabla_os *inner;

  uint64_t fail_at;    /* which call fails, counted from 1; 0: none      */
  uint64_t fail_calls; /* how many in a row do; 1 after init             */
  int has_unnamed;     /* not 0: NABLA_OS_UNNAMED is passed on, else refused */
  faulty_call fail_kind; /* which calls count; FAULTY_ANY after init       */
  int error;             /* what the failing call returns: -EIO after init */
  int short_transfers;   /* pread and pwrite move 1 byte to half of it     */
  int interrupt;         /* every call but close returns -EINTR once first */
  uint64_t zero_from;    /* from this pwrite on, counted from 1, each moves
                            nothing and returns 0; 0: none                 */
  uint64_t space;        /* bytes that pwrite still takes, then -ENOSPC;
                            free_bytes reports it when it is limited       */
  /* called before each call that is passed on; `path` NULL when it has none */
  void (*before)(void *context, faulty_call kind, const char *path);
  void *context;

  pthread_mutex_t lock;
  uint64_t calls[FAULTY_ANY + 1]; /* by kind; the last one is their sum    */
  uint64_t faults;                /* calls failed because of fail_at       */
  int open_fds;                   /* opened and not closed                 */
  int interrupted[FAULTY_ANY];    /* this kind returned -EINTR just now    */
  uint64_t random;
} faulty_os;

/* `inner` NULL means nabla_os_default(). A call that fails has no effect, but
 * for close, which releases the descriptor as Linux does. */
void faulty_os_init(faulty_os *faulty, const nabla_os *inner);

#endif

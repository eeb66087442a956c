/* The runs of --again: in the session of the first run, two more into the
 * arrays that this one gave. All give the same bytes, and the last allocates
 * nothing: the one before has left all that a run into these arrays needs. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "tools/nabla-run/run.h"

/* ---- the allocator ---- */

/* Requests of any thread. */
static atomic_ullong requests;

static void *resize(void *self, void *block, size_t old_size, size_t new_size) {
  (void)self, (void)old_size;
  if (!new_size) {
    free(block);
    return NULL;
  }
  atomic_fetch_add(&requests, 1);
  return realloc(block, new_size);
}

const nabla_allocator *run_counting_allocator(void) {
  static const nabla_allocator counting = {.resize = resize};
  return &counting;
}

/* ---- what the first run left ---- */

/* Bytes of results, then of states. */
typedef struct copies {
  size_t count;
  void **bytes;
} copies;

static nabla_status fail_memory(nabla_diag *diag) {
  return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a copy of results");
}

static nabla_status keep(copies *c, size_t at, const nabla_dense *array,
                         nabla_diag *diag) {
  const size_t bytes = run_bytes_of(array);
  c->bytes[at] = malloc(bytes ? bytes : 1);
  if (!c->bytes[at]) return fail_memory(diag);
  if (bytes) memcpy(c->bytes[at], array->data, bytes);
  return NABLA_OK;
}

/* Copies the state `number` as it is now to *out, to be released. */
static nabla_status state_of(const run *r, size_t number, nabla_dense *out,
                             nabla_diag *diag) {
  *out = (nabla_dense){0};
  return nabla_session_state_get(
      r->session, nabla_session_state(r->session, number)->state_name, out,
      diag);
}

/* Makes the results unlike what a run gives. */
static void spoil(run *r) {
  for (size_t i = 0; i < r->function->result_count; i++) {
    const size_t bytes = run_bytes_of(&r->results[i]);
    if (bytes) memset(r->results[i].data, 0xa5, bytes);
  }
}

/* Keeps the bytes of results and states. */
static nabla_status keep_all(run *r, copies *c, nabla_diag *diag) {
  const size_t results = r->function->result_count;
  c->count = results + nabla_session_state_count(r->session);
  c->bytes = calloc(c->count + 1, sizeof *c->bytes);
  if (!c->bytes) return fail_memory(diag);
  for (size_t i = 0; i < results; i++)
    NABLA_TRY(keep(c, i, &r->results[i], diag));
  for (size_t i = results; i < c->count; i++) {
    nabla_dense state;
    NABLA_TRY(state_of(r, i - results, &state, diag));
    const nabla_status status = keep(c, i, &state, diag);
    nabla_dense_release(r->executable, &state);
    if (status) return status;
  }
  return NABLA_OK;
}

/* ---- what the other runs gave ---- */

static nabla_status compare(const copies *c, size_t at,
                            const nabla_dense *array, const char *noun,
                            size_t number, nabla_diag *diag) {
  const size_t bytes = run_bytes_of(array);
  if (!bytes || !memcmp(c->bytes[at], array->data, bytes)) return NABLA_OK;
  return nabla_fail(diag, NABLA_CORRUPT,
                    "a second run gave other bytes of %s %zu than the first",
                    noun, number);
}

static nabla_status compare_all(const run *r, const copies *c,
                                nabla_diag *diag) {
  const size_t results = r->function->result_count;
  for (size_t i = 0; i < results && i < c->count; i++)
    NABLA_TRY(compare(c, i, &r->results[i], "result", i, diag));
  for (size_t i = results; i < c->count; i++) {
    nabla_dense state;
    NABLA_TRY(state_of(r, i - results, &state, diag));
    const nabla_status status =
        compare(c, i, &state, "state", i - results, diag);
    nabla_dense_release(r->executable, &state);
    if (status) return status;
  }
  return NABLA_OK;
}

/* Plans that are checked, and profiles, allocate in each run; steps of which
 * each may give other sizes do so for their results. */
static int may_allocate(const run *r) {
  const char *guard = getenv("NABLA_PLAN_GUARD");
  return (guard && !strcmp(guard, "1")) || run_is_profiled(r) ||
         (r->settings->steps > 1 && run_gives_any_size(r->function));
}

static nabla_status run_more(run *r, const copies *c, nabla_diag *diag) {
  unsigned long long made = 0;
  for (int i = 0; i < 2; i++) {
    const unsigned long long before = atomic_load(&requests);
    spoil(r);
    NABLA_TRY(run_steps_into(r, diag));
    made = atomic_load(&requests) - before;
    NABLA_TRY(compare_all(r, c, diag));
  }
  if (!made || may_allocate(r)) return NABLA_OK;
  return nabla_fail(diag, NABLA_CORRUPT,
                    "a second run allocated memory %llu times; all that it "
                    "needs was there after the first",
                    made);
}

nabla_status run_again(run *r, nabla_diag *diag) {
  const double first_ms = r->run_ms;
  copies c = {0};
  nabla_status status = keep_all(r, &c, diag);
  if (!status) status = run_more(r, &c, diag);
  for (size_t i = 0; c.bytes && i < c.count; i++) free(c.bytes[i]);
  free(c.bytes);
  r->run_ms = first_ms;
  return status;
}

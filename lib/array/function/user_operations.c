/* The operations of users that this process has added, and the list of all. */
#include "lib/array/function/user_operations.h"

#include <ctype.h>
#include <pthread.h>
#include <string.h>

#include "lib/array/function/operation_batch.h"
#include "lib/base/require.h"
#include "nabla/custom_call.h"
#include "transforms/shard/partitioners.h"

#define MAX_OPERATIONS ((size_t)1024)
#define MAX_NAME       ((size_t)60)
#define MAX_SAVED      ((size_t)64)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const nabla_operation *operations[MAX_OPERATIONS]; /* under `lock` */
static size_t operation_count;

/* ---- checks ---- */

static nabla_status refuse_unread(const nabla_operation *o, nabla_diag *diag) {
  const struct {
    const char *name;
    bool is_set;
  } members[] = {
      {"cost", o->cost},
      {"memory", o->memory},
      {"wants", o->wants},
  };
  for (size_t i = 0; i < sizeof members / sizeof *members; i++)
    if (members[i].is_set)
      return nabla_fail(diag, NABLA_UNSUPPORTED,
                        "the operation '%.60s' sets '%s', which no pass of "
                        "this version reads",
                        o->name, members[i].name);
  return NABLA_OK;
}

/* Which members of a derivative go together. */
static nabla_status check_derivative(const nabla_operation *o,
                                     nabla_diag *diag) {
  const char *why = NULL;
  if (o->derivative && o->kind != NABLA_OPERATION_UNARY)
    why = "'derivative' is of the kind UNARY: set 'vjp' and 'jvp'";
  else if (o->derivative && (o->forward || o->vjp || o->jvp))
    why =
        "'derivative' stands for 'forward', 'vjp' and 'jvp': set one or the "
        "others";
  else if (o->forward && !o->vjp)
    why = "'forward' saves what 'vjp' reads, which is not set";
  else if (o->saved_count > MAX_SAVED || (o->saved_count && !o->forward))
    why = "'saved_count' is that of 'forward', at most 64";
  if (!why) return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT, "the operation '%.60s': %s",
                    o->name, why);
}

static nabla_status check_name(const char *name, nabla_diag *diag) {
  bool is_good = name && *name && strlen(name) <= MAX_NAME;
  for (size_t i = 0; is_good && name[i]; i++)
    is_good = isalnum((unsigned char)name[i]) || name[i] == '_' ||
              (name[i] == '.' && i);
  return is_good ? NABLA_OK
                 : nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                              "an operation has a name of at most %zu letters, "
                              "digits, '_' and '.'",
                              MAX_NAME);
}

/* How it is divided between devices. */
static nabla_status check_factors(const nabla_operation *o, nabla_diag *diag) {
  static const char *const joins[] = {"sum", "max", "min", "prod"};
  bool is_known = !o->reduction;
  for (size_t i = 0; !is_known && i < sizeof joins / sizeof *joins; i++)
    is_known = !strcmp(o->reduction, joins[i]);
  const char *why = NULL;
  if ((o->factors || o->reduction) && !o->handler)
    why =
        "'factors' are those of a handler: a body is divided as what it "
        "records";
  else if (o->reduction && !o->factors)
    why = "'reduction' joins what 'factors' divide, which are not set";
  else if (!is_known)
    why = "'reduction' is none of sum, max, min and prod";
  return why ? nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                          "the operation '%.60s': %s", o->name, why)
             : NABLA_OK;
}

/* Looks for a handler. */
typedef struct search {
  const char *target;
  bool is_found, is_pure;
} search;

static int visit_handler(void *self, const nabla_call_handler *handler) {
  search *s = self;
  if (strcmp(s->target, handler->target) != 0) return 1;
  s->is_found = true;
  s->is_pure = handler->traits & NABLA_CALL_PURE;
  return 0;
}

static nabla_status check_handler(const nabla_operation *o, nabla_diag *diag) {
  search s = {.target = o->handler};
  nabla_call_handlers("cpu", visit_handler, &s);
  if (!s.is_found)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the operation '%s': no handler '%.60s' was added",
                      o->name, o->handler);
  if (!s.is_pure)
    return nabla_fail(diag, NABLA_UNSUPPORTED,
                      "the operation '%s': the handler '%.60s' is not pure, "
                      "and operations with effects cannot be recorded",
                      o->name, o->handler);
  if (!o->infer &&
      (o->kind == NABLA_OPERATION_OTHER || o->kind == NABLA_OPERATION_SHAPE ||
       o->kind == NABLA_OPERATION_CREATION ||
       o->kind == NABLA_OPERATION_COLLECTIVE))
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the operation '%s' has a handler and no 'infer', which "
                      "its kind does not replace",
                      o->name);
  return NABLA_OK;
}

/* Devices do a collective together, as its partitioner says. */
static nabla_status check_collective(const nabla_operation *o,
                                     nabla_diag *diag) {
  if (o->kind != NABLA_OPERATION_COLLECTIVE ||
      (o->handler && nabla_partitioner_is_added(o->handler)))
    return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "the operation '%s' is a collective one: it has a handler "
                    "for which a partitioner was added, nabla/shard.h",
                    o->name);
}

static nabla_status check_batch(const nabla_operation *o, nabla_diag *diag) {
  if (!o->batch || o->handler) return NABLA_OK;
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "the operation '%.60s': 'batch' is that of a handler: the "
                    "batch of a body is that of what it records",
                    o->name);
}

static nabla_status check(const nabla_operation *o, nabla_diag *diag) {
  NABLA_REQUIRE_SIZE(o, "an operation", diag);
  NABLA_TRY(check_name(o->name, diag));
  if ((unsigned)o->kind >= NABLA_OPERATION_KINDS)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "the operation '%s' has no kind", o->name);
  NABLA_TRY(refuse_unread(o, diag));
  NABLA_TRY(check_derivative(o, diag));
  if (!o->body == !o->handler)
    return nabla_fail(
        diag, NABLA_INVALID_ARGUMENT, "the operation '%s' has %s", o->name,
        o->body ? "both a body and a handler" : "neither a body nor a handler");
  NABLA_TRY(check_factors(o, diag));
  NABLA_TRY(check_batch(o, diag));
  NABLA_TRY(check_collective(o, diag));
  return o->handler ? check_handler(o, diag) : NABLA_OK;
}

/* ---- the list ---- */

static const nabla_operation *find(const char *name) {
  for (size_t i = 0; i < operation_count; i++)
    if (!strcmp(operations[i]->name, name)) return operations[i];
  return NULL;
}

nabla_status nabla_add_operation(const nabla_operation *operation,
                                 nabla_diag *diag) {
  NABLA_REQUIRE(operation, diag);
  NABLA_TRY(check(operation, diag));
  nabla_status status = NABLA_OK;
  pthread_mutex_lock(&lock);
  if (find(operation->name))
    status = nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "there is an operation '%s'", operation->name);
  else if (operation_count == MAX_OPERATIONS)
    status = nabla_fail(diag, NABLA_TOO_LARGE, "more than %zu operations",
                        MAX_OPERATIONS);
  else
    status = nabla_operation_batch_add(operation, diag);
  if (!status) operations[operation_count++] = operation;
  pthread_mutex_unlock(&lock);
  return status;
}

const nabla_operation *nabla_operation_find(const char *name) {
  if (!name) return NULL;
  pthread_mutex_lock(&lock);
  const nabla_operation *found = find(name);
  pthread_mutex_unlock(&lock);
  return found;
}

#define ROW(name, op, kind) \
  {sizeof(nabla_operation_entry), #name, op, NABLA_OPERATION_##kind, NULL},

static const nabla_operation_entry recorded[] = {
#define UNARY(name, op, dtypes)                ROW(name, "nabla." #op, UNARY)
#define UNARY_OF(name, op, dtypes, key, value) ROW(name, "nabla." #op, UNARY)
#define BINARY(name, op, dtypes)               ROW(name, "nabla." #op, BINARY)
#define COMPARISON(name, kind)        ROW(name, "nabla.compare", BINARY)
#define REDUCTION(name, kind, dtypes) ROW(name, "nabla.reduce", REDUCE)
#define ACROSS(name, op, dtypes)      ROW(name, "nabla." #op, REDUCE)
#define ALONG(name, op, dtypes)       ROW(name, "nabla." #op, AXIS)
#define JOIN(name, op)                ROW(name, "nabla." #op, SHAPE)
#define FILLED(name, value)           ROW(name, "nabla.full", CREATION)
#define LIKE(name, value)             ROW(name, "nabla.full", CREATION)
#define RANDOM(name, op)              ROW(name, "nabla." #op, CREATION)
#define OTHER(name, op, parameters)   ROW(name, "nabla." #op, OTHER)
#include "lib/array/operations.def"
};

void nabla_operations(int (*visit)(void *self,
                                   const nabla_operation_entry *entry),
                      void *self) {
  for (size_t i = 0; i < sizeof recorded / sizeof *recorded; i++) {
    nabla_operation_entry entry = recorded[i];
    if (!strcmp(entry.op, "nabla.parts")) entry.op = "parts";
    if (!visit(self, &entry)) return;
  }
  for (size_t i = 0;; i++) {
    pthread_mutex_lock(&lock);
    const nabla_operation *o = i < operation_count ? operations[i] : NULL;
    pthread_mutex_unlock(&lock);
    if (!o) return;
    const nabla_operation_entry entry = {sizeof entry, o->name, "", o->kind, o};
    if (!visit(self, &entry)) return;
  }
}

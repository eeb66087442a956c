/* nabla-vjp: makes the function of gradients of a function, in reverse mode, or
 * two: one that saves what the other needs. */
#include <stdlib.h>
#include <string.h>

#include "dialect/control.h"
#include "transforms/autodiff/calls.h"
#include "transforms/autodiff/saved.h"
#include "transforms/passes.h"

/* The number of a word in a list; -1 after an error. */
static int read_word(MlirOperation module, const char *option, const char *word,
                     int count, const char *const *words, const char *all) {
  for (int i = 0; i < count; i++)
    if (!strcmp(words[i], word)) return i;
  nabla_error_at(module, "nabla-vjp: %s '%s' is none of %s", option, word, all);
  return -1;
}

static bool joint(nabla_derived *d, const nabla_derive *how, nabla_save save) {
  MlirBlock entry = nabla_region_block(how->function, 0);
  MlirOperation made = nabla_derive_vjp(d, how);
  return !mlirOperationIsNull(made) &&
         (save == NABLA_SAVE_ALL ||
          nabla_derive_again(
              d, made, save, mlirBlockGetNumArguments(entry),
              mlirOperationGetNumOperands(nabla_block_end(entry))));
}

static bool derive(MlirOperation module, MlirOperation function,
                   const nablaPassValue *values) {
  static const char *const switches[] = {"off", "on"};
  static const char *const modes[] = {"joint", "split"};
  static const char *const saves[] = {"all", "dots", "none"};
  const int mode =
      read_word(module, "mode", values[2].string, 2, modes, "joint, split");
  const int save =
      read_word(module, "save", values[3].string, 3, saves, "all, dots, none");
  const int finite = read_word(module, "check-finite", values[4].string, 2,
                               switches, "off, on");
  if (mode < 0 || save < 0 || finite < 0) return false;
  nabla_derived d = {.module = module};
  nabla_derive how = {.function = function,
                      .suffix = "vjp",
                      .finite = finite == 1,
                      .exact = true,
                      .marked = mode == 1 || save != NABLA_SAVE_ALL};
  nabla_wrt *wrt = nabla_wrt_read(function, values[1].string, &how.count);
  how.wrt = wrt;
  const bool good = wrt && nabla_rules_check(&d) &&
                    (mode ? nabla_derive_split(&d, &how, (nabla_save)save)
                          : joint(&d, &how, (nabla_save)save));
  free(wrt);
  nabla_derived_deinit(&d);
  return good;
}

MlirLogicalResult nabla_run_vjp(MlirOperation module,
                                const nablaPassValue *values, void *prepared) {
  (void)prepared;
  MlirOperation function = nabla_derive_find(module, values[0].string);
  return !mlirOperationIsNull(function) && derive(module, function, values)
             ? mlirLogicalResultSuccess()
             : mlirLogicalResultFailure();
}

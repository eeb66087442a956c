/* Which MPI library a process uses: the one that it has loaded, else the
 * launcher's, else what NABLA_MPI says. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/runtime/collectives/mpi_internal.h"

enum { ABIS = 2 };
static const nabla_mpi_abi *const abis[ABIS] = {&nabla_mpi_open,
                                                &nabla_mpi_mpich};

/* Whether a library has this ABI: MPICH has no symbols of Open MPI. */
static int has_abi(void *library, const nabla_mpi_abi *abi) {
  return library && dlsym(library, abi->symbol) &&
         (abi == &nabla_mpi_open) ==
             (dlsym(library, nabla_mpi_open.symbol) != NULL);
}

/* The library if the process has it, linked or by dlopen; NULL. */
static void *find_loaded(const nabla_mpi_abi *abi) {
  for (size_t i = 0; abi->files[i]; i++) {
    void *library = dlopen(abi->files[i], RTLD_NOW | RTLD_NOLOAD);
    if (has_abi(library, abi)) return library;
    if (library) dlclose(library);
  }
  void *all = dlopen(NULL, RTLD_NOW);
  if (has_abi(all, abi)) return all;
  if (all) dlclose(all);
  return NULL;
}

/* Its plugins look its symbols up, so that it is opened for all. */
static void *load(const nabla_mpi_abi *abi) {
  for (size_t i = 0; abi->files[i]; i++) {
    void *library = dlopen(abi->files[i], RTLD_NOW | RTLD_GLOBAL);
    if (has_abi(library, abi)) return library;
    if (library) dlclose(library);
  }
  return NULL;
}

/* That of the environment, or NULL. */
static nabla_status read_environment(const nabla_mpi_abi **launcher,
                                     const nabla_mpi_abi **wish,
                                     nabla_diag *diag) {
  const char *text = getenv("NABLA_MPI");
  int found = 0;
  *launcher = *wish = NULL;
  for (int i = 0; i < ABIS; i++) {
    if (text && !strcmp(text, abis[i]->id)) *wish = abis[i];
    if (!getenv(abis[i]->rank_variable)) continue;
    *launcher = abis[i];
    found++;
  }
  if (text && !*wish) {
    const nabla_status status =
        nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                   "NABLA_MPI is '%.60s': it is openmpi or mpich", text);
    nabla_diag_set_next(diag, "leave it unset under mpirun");
    return status;
  }
  if (found > 1) *launcher = *wish; /* one launcher within another's job */
  return NABLA_OK;
}

static nabla_status refuse(const char *what, const char *one, const char *other,
                           nabla_diag *diag) {
  const nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, what, one, other);
  nabla_diag_set_next(diag,
                      "use the mpirun of the same MPI: mpirun.openmpi or "
                      "mpirun.mpich");
  return status;
}

static nabla_status fail_missing(const nabla_mpi_abi *abi, nabla_diag *diag) {
  const nabla_status status =
      nabla_fail(diag, NABLA_UNSUPPORTED, "there is no library of %s (%s)",
                 abi->name, abi->files[0]);
  nabla_diag_set_next(diag, "install it, or add its folder to LD_LIBRARY_PATH");
  return status;
}

static nabla_status fail_unknown(nabla_diag *diag) {
  const nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                 "the process was not started by mpirun, and NABLA_MPI is not "
                 "set");
  nabla_diag_set_next(diag, "mpirun -n N PROGRAM ..., or nabla_comm_threads");
  return status;
}

nabla_status nabla_mpi_choose(const nabla_mpi_abi **out, void **library,
                              nabla_diag *diag) {
  const nabla_mpi_abi *launcher, *wish, *found = NULL;
  *library = NULL;
  NABLA_TRY(read_environment(&launcher, &wish, diag));
  for (int i = 0; i < ABIS; i++) {
    void *loaded = find_loaded(abis[i]);
    if (!loaded) continue;
    if (found)
      return refuse("the process has loaded both %s and %s", found->name,
                    abis[i]->name, diag);
    found = abis[i];
    *library = loaded;
  }
  if (found && launcher && found != launcher)
    return refuse("the process has loaded %s, and was started by %s",
                  found->name, launcher->name, diag);
  if (!found && launcher && wish && wish != launcher)
    return refuse("NABLA_MPI asks for %s, the process was started by %s",
                  wish->name, launcher->name, diag);
  *out = found ? found : launcher ? launcher : wish;
  if (!*out) return fail_unknown(diag);
  if (!*library) *library = load(*out);
  return *library ? NABLA_OK : fail_missing(*out, diag);
}

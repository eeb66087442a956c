/* How fast devices compute and exchange, and what collectives cost. */
#ifndef NABLA_TRANSFORMS_SHARD_SOLVE_MACHINE_H
#define NABLA_TRANSFORMS_SHARD_SOLVE_MACHINE_H

#include "transforms/shard/layout.h"

typedef struct nabla_shard_machine {
  double operations_per_second, bytes_per_second; /* of one device */
  double bandwidth[NABLA_MESH_MAX_AXES];          /* bytes/s */
  double latency[NABLA_MESH_MAX_AXES];            /* s */
} nabla_shard_machine;

/* The defaults, then what the operation nabla.mesh of `module` says, then the
 * file `path` (docs/schema/nabla-machine-1.json), unless that is empty. False
 * after an error, which was reported. */
bool nabla_shard_machine_read(MlirOperation module, const nabla_mesh *mesh,
                              const char *path, nabla_shard_machine *out);

/* What is exchanged: bytes that the first device receives, as the transport
 * counts them, and seconds. */
typedef struct nabla_exchange {
  uint64_t bytes;
  double seconds;
} nabla_exchange;

/* Adds a collective: its name, such as "nabla.all_gather", and the local types
 * of its operand and result. Unknown sizes count as 1. */
void nabla_exchange_add(const nabla_grid *grid,
                        const nabla_shard_machine *machine, const char *name,
                        const nabla_atom_list *atoms, MlirType from,
                        MlirType to, nabla_exchange *out);

/* Adds what brings a value from one layout to another. False where that cannot
 * be done: the cost is then PROHIBITIVE seconds. */
#define NABLA_PROHIBITIVE 1e6
bool nabla_exchange_reshard(const nabla_grid *grid,
                            const nabla_shard_machine *machine,
                            const nabla_division *from,
                            const nabla_division *to, nabla_exchange *out);

#endif

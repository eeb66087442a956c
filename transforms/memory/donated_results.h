/* Results of a public function that are in the memory of its donated arguments,
 * and states that kernels write (transforms/state/state.h). */
#ifndef NABLA_TRANSFORMS_MEMORY_DONATED_RESULTS_H
#define NABLA_TRANSFORMS_MEMORY_DONATED_RESULTS_H

#include "transforms/ir/ir.h"

/* Lets `function`, of one block, return its donated arguments themselves where
 * deallocation made copies of them, and compute results of elementwise
 * operations in the donated argument that these read. Nothing reads such an
 * argument later. `symbols` are the module's. False if out of memory; reported.
 */
bool nabla_donated_results_place(MlirSymbolTable symbols,
                                 MlirOperation function);

/* Lets a kernel of `function`, of one block, write a state itself, where it
 * writes an array that is then copied to the state. The same conditions, but
 * that the kernel need not read the state. False if out of memory; reported. */
bool nabla_states_store_directly(MlirSymbolTable symbols,
                                 MlirOperation function);

#endif

/* The graph of a walk as operations of MLIR: a program, or the body of a
 * region. */
#ifndef NABLA_ARRAY_EMIT_H
#define NABLA_ARRAY_EMIT_H

#include "lib/array/walk.h"

/* The integer attribute of a NABLA_CAST that stands for an operand which
 * regions of an operation use. */
#define NABLA_CAPTURE "nabla.capture"

/* A walk whose operations are added to a block. */
typedef struct nabla_graph_emitter {
  const nabla_walk *walk;
  MlirContext context;
  MlirValue *leaves;     /* by number: set by the caller */
  MlirOperation *copies; /* of the nodes' operations     */
} nabla_graph_emitter;

NABLA_MUST_USE nabla_status nabla_graph_emitter_init(
    nabla_graph_emitter *emitter, const nabla_walk *walk, nabla_diag *diag);
void nabla_graph_emitter_deinit(nabla_graph_emitter *emitter);
/* Adds the operations of all nodes before `before`; at the end of `block` if it
 * is null. */
void nabla_graph_emitter_add(nabla_graph_emitter *emitter, MlirBlock block,
                             MlirOperation before);
/* The value of an array of the walk, once operations were added. */
MlirValue nabla_graph_emitter_value(const nabla_graph_emitter *emitter,
                                    const nabla_array *array);

/* Attributes of an argument or result; NULL: none. */
typedef struct nabla_emitted_port {
  const char *name;  /* nabla.name     */
  const char *state; /* nabla.state    */
  bool is_captured;  /* nabla.captured */
  bool is_donated;   /* nabla.donated  */
  const char *dims;  /* nabla.dims: names of its sizes */
} nabla_emitted_port;

/* A walk with the ports of its function: leaves, then results; NULL: none have
 * attributes. */
typedef struct nabla_emitted_program {
  const nabla_walk *walk;
  const nabla_emitted_port *ports;
  bool is_text;   /* else bytecode */
  bool has_rules; /* with the rules of derivatives of functions */
} nabla_emitted_program;

/* Appends a module with the public function "main", of the leaves to the
 * results, and private functions that it calls: a nabla_program_writer, of a
 * nabla_emitted_program. */
NABLA_MUST_USE nabla_status nabla_program_emit(void *program, nabla_buffer *out,
                                               nabla_diag *diag);

/* Makes a private function of a walk, `name`, in the module of its recorder,
 * unless it has one. */
NABLA_MUST_USE nabla_status nabla_walk_emit(const nabla_walk *walk,
                                            const char *name, nabla_diag *diag);

/* A function of a module by its name; null where there is none. */
MlirOperation nabla_function_in(MlirModule module, MlirStringRef name);
/* Whether a function of a module has a derivative of its own. */
bool nabla_module_has_rules(MlirModule module);
/* Copies a function, and those that it calls, where `to` has none of their
 * names; with the rules of their derivatives, or without the attributes that
 * name them. */
void nabla_function_copy(MlirModule from, MlirModule to, MlirStringRef name,
                         bool has_rules);

#endif

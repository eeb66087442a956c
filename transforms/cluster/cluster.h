/* Clusters: operations of one block, elementwise and reductions of the last
 * dimensions, that one kernel computes. The space of a cluster is the shape of
 * its full values. Its dimensions from `split` on are the columns, which loops
 * of vectors run over; those before are the rows. Functions are defined in
 * arrays.c, body.c, elements.c, finish.c and form.c. */
#ifndef NABLA_TRANSFORMS_CLUSTER_CLUSTER_H
#define NABLA_TRANSFORMS_CLUSTER_CLUSTER_H

#include "dialect/encoding/encoding.h"
#include "lib/kernels/fused_kernel.h"
#include "transforms/ir/block_index.h"

enum {
  NABLA_CLUSTER_OPS = 64,
  NABLA_CLUSTER_NODES = 192,
  NABLA_CLUSTER_INPUTS = 16,
  NABLA_CLUSTER_OUTPUTS = 8,
  NABLA_CLUSTER_CHECKS = 32,
  NABLA_CLUSTER_OPERANDS = 3, /* of a node */
  NABLA_CLUSTER_RANK = 8,
  NABLA_CLUSTER_REDUCTIONS = 8,
  NABLA_CLUSTER_DEAR = 8,   /* cost from which a value is not computed again */
  NABLA_CLUSTER_FEWEST = 8, /* columns of rows of known size */
  NABLA_CLUSTER_LEAST = 2048, /* cost of all elements, of known number */
};

typedef enum nabla_cluster_kind {
  NABLA_CLUSTER_INPUT,   /* elements of a tensor */
  NABLA_CLUSTER_NUMBER,  /* a constant */
  NABLA_CLUSTER_PLACE,   /* nabla.iota: the index along dimension `attribute` */
  NABLA_CLUSTER_COLUMNS, /* the number of columns */
  NABLA_CLUSTER_ELEMENT, /* a row of elements.def */
  NABLA_CLUSTER_REDUCE,  /* a row of reductions.def */
} nabla_cluster_kind;

/* Shapes of values: the space; its rows; its rows, with a 1 for each dimension
 * of the columns. */
typedef enum nabla_cluster_shape {
  NABLA_CLUSTER_FULL,
  NABLA_CLUSTER_ROWS,
  NABLA_CLUSTER_ROWS_KEPT,
} nabla_cluster_shape;

typedef enum nabla_cluster_reduction {
#define REDUCTION(id, initial, cost) NABLA_CLUSTER_##id,
#include "transforms/cluster/reductions.def"
#undef REDUCTION
} nabla_cluster_reduction;

typedef struct nabla_cluster_element nabla_cluster_element;

/* A value. Operands are nodes with lower numbers. */
typedef struct nabla_cluster_node {
  nabla_cluster_kind kind;
  nabla_cluster_shape shape;
  nabla_dtype dtype; /* to which it is rounded; BOOL: a truth value */
  const nabla_cluster_element *element;
  /* of an element: the kind of a comparison, of gelu; the value of a number
   * that is an integer */
  int64_t attribute;
  nabla_cluster_reduction reduction;
  double number;
  int input;
  int operands[NABLA_CLUSTER_OPERANDS], operand_count;
  /* nabla_cluster_finish: it is the same in all columns; the pass over a row in
   * which it can be computed */
  bool is_uniform;
  int level;
} nabla_cluster_node;

/* A tensor that a cluster reads: dimension `map[d]` of it is dimension d of the
 * space; -1: it is repeated along d. */
typedef struct nabla_cluster_input {
  MlirValue value;
  nabla_dtype dtype;
  int map[NABLA_CLUSTER_RANK];
  const char *name; /* of the operation that compares its sizes */
} nabla_cluster_input;

typedef struct nabla_cluster_output {
  MlirValue value;
  int node;
} nabla_cluster_output;

/* A size, of type index, that has to be that of dimension `dim`. */
typedef struct nabla_cluster_check {
  MlirValue size;
  int dim;
  const char *name;
} nabla_cluster_check;

typedef struct nabla_cluster_member {
  size_t number; /* of the operation in the block */
  int node;      /* of its result */
} nabla_cluster_member;

/* Arrays have room for ..._room elements (nabla_cluster_reserve). */
typedef struct nabla_cluster {
  nabla_cluster_member *members; /* numbers ascend */
  int member_count, members_room;
  nabla_cluster_node *nodes;
  int node_count, nodes_room;
  nabla_cluster_input *inputs;
  int input_count, inputs_room;
  nabla_cluster_output outputs[NABLA_CLUSTER_OUTPUTS];
  int output_count;
  nabla_cluster_check *checks;
  int check_count, checks_room;
  int rank, split; /* split: -1 until a reduction decides */
  int64_t dims[NABLA_CLUSTER_RANK];
  bool is_closed; /* takes no more operations */
  bool is_cut;    /* begins in the middle of another: is not merged */
  int passes;
} nabla_cluster;

/* Element types. F32: what kernels compute in f32. */
typedef enum nabla_cluster_types {
  NABLA_CLUSTER_F32 = 1,
  NABLA_CLUSTER_INTEGERS = 2,
  NABLA_CLUSTER_TRUTHS = 4,
  NABLA_CLUSTER_F64 = 8,
  NABLA_CLUSTER_FLOATS = NABLA_CLUSTER_F32 | NABLA_CLUSTER_F64,
  NABLA_CLUSTER_NUMBERS = NABLA_CLUSTER_FLOATS | NABLA_CLUSTER_INTEGERS,
  NABLA_CLUSTER_BITS = NABLA_CLUSTER_INTEGERS | NABLA_CLUSTER_TRUTHS,
  NABLA_CLUSTER_ANY = NABLA_CLUSTER_NUMBERS | NABLA_CLUSTER_TRUTHS,
} nabla_cluster_types;

/* A row of elements.def. `cost`: in additions. */
typedef struct nabla_cluster_body nabla_cluster_body;
struct nabla_cluster_element {
  const char *name; /* of the operation, "nabla.add" */
  unsigned (*emit)(nabla_cluster_body *b, const nabla_cluster_node *node,
                   const unsigned *x);
  const char *detail;
  int operands, cost;
  nabla_cluster_types types; /* of operands */
};

const nabla_cluster_element *nabla_cluster_element_named(MlirStringRef name);
int nabla_cluster_reduction_cost(nabla_cluster_reduction reduction);

/* The element type of a tensor that kernels of clusters read and write; false
 * for others. */
bool nabla_cluster_dtype(MlirType tensor, nabla_dtype *out);
nabla_cluster_types nabla_cluster_types_of(nabla_dtype dtype);
/* Whether values of a type are f32 in kernels. */
bool nabla_cluster_is_f32(nabla_dtype dtype);

/* The cost of an element of a node, 0 of inputs and numbers. */
int nabla_cluster_cost(const nabla_cluster_node *node);

/* Whether each input is consecutive along all dimensions from `split` on, or
 * repeated along all of them, and each index is one of rows or of the columns.
 */
bool nabla_cluster_splits(const nabla_cluster *c, int split);

/* Decides the split, what is uniform, and the passes. False where no split has
 * columns. */
bool nabla_cluster_finish(nabla_cluster *c);

/* Makes room for at least so many elements; false when memory runs out. */
bool nabla_cluster_reserve(nabla_cluster *c, int nodes, int inputs, int checks,
                           int members);
void nabla_cluster_deinit(nabla_cluster *c);

/* Forms the clusters of a block for a CPU with `features`, in an array that the
 * caller frees after it has deinitialized each of them; false when memory runs
 * out. */
bool nabla_clusters_form(const nabla_block_index *index,
                         nabla_features features, nabla_cluster **out,
                         size_t *out_count);

/* Appends the kernel: llvm.func internal @NAME(arguments, begin, end). It
 * computes units [begin, end): rows, or blocks of columns of a row where
 * nothing is reduced. */
void nabla_cluster_emit(const nabla_cluster *c, nabla_features features,
                        const char *name, nabla_text *text);

/* Elements of a cluster of known size: without memory for its broadcasts it
 * would run for hours. */
#define NABLA_CLUSTER_MOST ((int64_t)1 << 40)

/* Columns of a unit where nothing is reduced. */
#define NABLA_CLUSTER_BLOCK 4096u
/* Words of a kernel: inputs, outputs, then the sizes of all dimensions. */
static inline int nabla_cluster_words(const nabla_cluster *c) {
  return c->input_count + c->output_count + c->rank;
}
bool nabla_cluster_reduces(const nabla_cluster *c);

#endif

/* The plan of one function: what needs memory in it, when, and where in its
 * block. Functions are defined in function_plan.c, early_checks.c, and those
 * that change the program in apply_plan.c. */
#ifndef NABLA_TRANSFORMS_MEMORY_FUNCTION_PLAN_H
#define NABLA_TRANSFORMS_MEMORY_FUNCTION_PLAN_H

#include "transforms/ir/block_index.h"
#include "transforms/memory/entry_sizes.h"
#include "transforms/memory/open_layout.h"
#include "transforms/memory/open_parts.h"

/* Attributes of a function that needs memory from its callers. Of every planned
 * one: the bytes, or a guess of them where there is a size function. */
#define NABLA_PLAN_BYTES "nabla.plan_bytes"
/* The size function, and the words that it takes: pairs of an argument and a
 * dimension (nabla_size_source). */
#define NABLA_PLAN_SIZES   "nabla.plan_sizes"
#define NABLA_PLAN_SOURCES "nabla.plan_sources"

/* An allocation, or a call of a function that needs memory. */
typedef struct nabla_plan_item {
  MlirOperation op;
  size_t last; /* number of the last operation that uses it */
} nabla_plan_item;

/* Items and their parts, number for number. */
typedef struct nabla_plan_list {
  nabla_plan_item *items;
  size_t count, capacity;
} nabla_plan_list;

typedef struct nabla_function_plan {
  MlirOperation function;
  MlirSymbolTable symbols;
  bool is_private;
  bool has_red_zones;
  nabla_block_index index;
  MlirOperation at; /* of the entry block: the first that needs memory, or
                       null */
  nabla_entry_sizes sizes;
  nabla_plan_list fixed; /* of static size           */
  nabla_plan_list open;  /* of sizes known at entry  */
  nabla_plan_list apart; /* calls with a block each  */
  nabla_layout_part *fixed_parts;
  nabla_open_part *open_parts;
  nabla_open_words *words; /* of the open parts */
  size_t *order;           /* of the open parts */
  nabla_layout_size size;  /* of the parts of static size */
  size_t planned, left;    /* allocations */
  size_t planned_open;     /* of `planned` */
  bool failed;             /* reported */
} nabla_function_plan;

/* Finds what needs memory in a function of one block, and places the parts of
 * static size. The fields up to `has_red_zones` are set. Reports errors.
 * Deinitialize in both cases. */
bool nabla_function_plan_make(nabla_function_plan *plan);
void nabla_function_plan_deinit(nabla_function_plan *plan);

/* Whether the function needs memory. */
bool nabla_function_plan_needs(const nabla_function_plan *plan);

/* Makes the allocations parts of the block at `base`, an address. */
bool nabla_function_plan_apply(nabla_function_plan *plan, MlirValue base);

/* Gives each call of `apart` a block of its own. */
bool nabla_function_plan_apply_apart(nabla_function_plan *plan);

/* Computes the size of the block before `plan->at`: a word. */
MlirValue nabla_function_plan_size(nabla_function_plan *plan);

/* Makes comparisons of dimensions whose sizes are known before `plan->at`, of
 * those up to the last open part, of which there is one. */
void nabla_function_plan_check_early(nabla_function_plan *plan);

/* Makes the size function of a private function with open parts. */
bool nabla_function_plan_add_sizes(nabla_function_plan *plan);

/* Reports an error at `op`; false. */
bool nabla_function_plan_fail(nabla_function_plan *plan, MlirOperation op,
                              const char *what);

#endif

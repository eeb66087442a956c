/* AMX; see amx.h. */
#include "lib/kernels/builder/amx.h"

#include "lib/kernels/builder/k.h"

#define TILES 8u

/* Bytes of the configuration: the palette; for each tile the bytes of a row, in
 * 16 bits; for each tile the number of rows. */
#define CONFIG_BYTES 64u
#define LENGTHS_AT   16u
#define ROWS_AT      48u

static nabla_ssa number_of(nabla_emitter *e, unsigned tile) {
  return k_op(e, "arith.constant %u : i8", tile);
}

void nabla_emit_tiles_begin(nabla_emitter *e, nabla_ssa address,
                            unsigned bytes) {
  unsigned values[CONFIG_BYTES] = {1};
  for (unsigned i = 0; i < TILES; i++) {
    int is_w = i >= NABLA_W_TILE && i < NABLA_X_TILE;
    values[LENGTHS_AT + 2 * i] = is_w ? bytes : NABLA_TILE_ROW_BYTES;
    values[ROWS_AT + i] = i >= NABLA_X_TILE ? bytes / 4 : NABLA_TILE_ROWS;
  }
  nabla_text line = {0};
  nabla_text_add(&line, "arith.constant dense<[");
  for (unsigned i = 0; i < CONFIG_BYTES; i++)
    nabla_text_add(&line, "%s%u", i ? ", " : "", values[i]);
  nabla_text_add(&line, "]> : vector<64xi8>");
  nabla_ssa config = k_taken(e, &line);
  k_line(e,
         "llvm.store %%v%u, %%v%u {alignment = 64 : i64} : "
         "vector<64xi8>, !llvm.ptr",
         config, address);
  k_line(e,
         "llvm.call_intrinsic \"llvm.x86.ldtilecfg\"(%%v%u) : "
         "(!llvm.ptr) -> ()",
         address);
}

void nabla_emit_tiles_end(nabla_emitter *e) {
  k_line(e, "llvm.call_intrinsic \"llvm.x86.tilerelease\"() : () -> ()");
}

static void move(nabla_emitter *e, const char *what, unsigned tile,
                 nabla_ssa address, uint64_t apart) {
  k_line(e,
         "llvm.call_intrinsic \"llvm.x86.%s\"(%%v%u, %%v%u, %%v%u) : "
         "(i8, !llvm.ptr, i64) -> ()",
         what, number_of(e, tile), address, k_i64(e, apart));
}

void nabla_emit_tile_load_apart(nabla_emitter *e, unsigned tile, nabla_ssa base,
                                nabla_ssa byte, uint64_t apart) {
  move(e, "tileloadd64", tile, k_address(e, base, byte), apart);
}

void nabla_emit_tile_store_apart(nabla_emitter *e, unsigned tile,
                                 nabla_ssa base, nabla_ssa byte,
                                 uint64_t apart) {
  move(e, "tilestored64", tile, k_address(e, base, byte), apart);
}

void nabla_emit_tile_load(nabla_emitter *e, unsigned tile, nabla_ssa base,
                          nabla_ssa byte) {
  nabla_emit_tile_load_apart(e, tile, base, byte, NABLA_TILE_ROW_BYTES);
}

void nabla_emit_tile_store(nabla_emitter *e, unsigned tile, nabla_ssa base,
                           nabla_ssa byte) {
  nabla_emit_tile_store_apart(e, tile, base, byte, NABLA_TILE_ROW_BYTES);
}

void nabla_emit_tile_zero(nabla_emitter *e, unsigned tile) {
  k_line(e, "llvm.call_intrinsic \"llvm.x86.tilezero\"(%%v%u) : (i8) -> ()",
         number_of(e, tile));
}

void nabla_emit_tile_dot(nabla_emitter *e, const char *what, unsigned sum,
                         unsigned a, unsigned b) {
  k_line(e,
         "llvm.call_intrinsic \"llvm.x86.%s\"(%%v%u, %%v%u, %%v%u) : "
         "(i8, i8, i8) -> ()",
         what, number_of(e, sum), number_of(e, a), number_of(e, b));
}

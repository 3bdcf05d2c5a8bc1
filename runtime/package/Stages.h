//===- Stages.h - the kinds of stage that a manifest may hold -*- C++ -*- ===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One row for each kind: its operands, results and attributes. The validator
// holds every kernel's stages against it, the host device has one function a
// row, and docs/reference/manifest-stages.md shows it (a test compares the
// two).
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_STAGES_H
#define MOEC_RUNTIME_PACKAGE_STAGES_H

#include "runtime/support/WordList.h"

#include <iterator>
#include <string_view>

namespace moec {

/// Lists of names; a trailing '?' marks an optional one. Attributes carry their
/// type: "n:integer", "gather:boolean", "score:string", "scale:number",
/// "limit:number?" (the '?' allows null); a trailing '~' marks one that may be
/// missing.
struct StageKind {
  std::string_view op;
  WordList operands;
  WordList results;
  WordList attributes;
};

inline constexpr StageKind kStageKinds[] = {
    // output_scale: of topk_weights, with which outputs are summed, alone.
    {.op = "route",
     .operands =
         "logits? given_ids? given_weights? valid_tokens? routing_bias? "
         "expert_scale? token_ids? hash_table? logical_to_physical? "
         "replica_count? expert_map? shared_gate? local_begin?",
     .results = "topk_ids topk_weights ids? weights?",
     .attributes =
         "score:string select:string normalize:string experts:integer "
         "top_k:integer groups:integer top_groups:integer scale:number "
         "output_scale:number~ softcap:number~ logit_scale:number~ "
         "epsilon:number~ sinks:integer~ table_rows:integer~ "
         "physical_experts:integer~ replica_slots:integer~ shared:integer~ "
         "zero:integer~"},
    // most_blocks: a block has the smallest multiple of block_tokens tokens
    // with which so many suffice; no bound where it is missing.
    {.op = "count",
     .operands = "topk_ids",
     .results = "block_counts",
     .attributes = "experts:integer local_experts:integer block_tokens:integer "
                   "most_blocks:integer~"},
    // row_step: an expert's tiles are alike, in steps of so many rows.
    // counters: zeros behind the number of tiles, 2 where it is missing.
    // local_begin: the first of local_experts; 0 where a rank holds all.
    {.op = "permute",
     .operands = "topk_ids block_counts local_begin?",
     .results = "rows positions offsets tiles tile_count counts?",
     .attributes =
         "experts:integer local_experts:integer pairs:integer "
         "block_tokens:integer most_blocks:integer~ tile_rows:integer "
         "row_step:integer~ counters:integer~"},
    // Rows in the order of pairs; local_begin as of permute.
    {.op = "pair_rows",
     .operands = "topk_ids local_begin?",
     .results = "positions",
     .attributes = "experts:integer local_experts:integer pairs:integer"},
    // Rows that come by expert, each expert's at a multiple of tokens.
    {.op = "batch",
     .operands = "expert_num_tokens",
     .results = "tiles tile_count",
     .attributes = "experts:integer tile_rows:integer row_step:integer~"},
    // Rows of one expert that every token takes, as an MLP of shared experts
    // is: row t is token t.
    {.op = "shared_rows",
     .operands = "valid_tokens? shared_gate?",
     .results = "tiles tile_count offsets positions topk_weights",
     .attributes = "tile_rows:integer row_step:integer~"},
    // propagates_nan: the maximum of a block that holds a NaN is one.
    // -1 stands for the whole extent. block_rows: of the maxima that a dynamic
    // scale of all values is made from.
    // row_weights: of the pairs of a token, which multiply its row first.
    // Without a scale as a result, the products are rounded alone; or data are
    // what codes of the element type that they emulate stand for, with
    // second_per_row where their scales are e4m3 and scaled themselves.
    // scale_rule: where scales are powers of two.
    {.op = "amax",
     .operands = "input row_weights? offsets? expert_num_tokens? valid_tokens?",
     .results = "block_amax",
     .attributes = "block_rows:integer pairs:integer~ propagates_nan:boolean~"},
    {.op = "quantize",
     .operands =
         "input row_weights? static_scale? static_second_scale? block_amax? "
         "offsets? expert_num_tokens? tiles? tile_count? valid_tokens?",
     .results = "data scale? second_scale?",
     .attributes = "group_rows:extent~ group_columns:extent~ dynamic:boolean "
                   "block_rows:integer pairs:integer~ emulates:string~ "
                   "scale_rule:string~ "
                   "second_per_row:boolean~"},
    // The numbers that codes of x stand for; a second scale of all or of each
    // row.
    {.op = "dequantize",
     .operands = "input scale second_scale? expert_num_tokens?",
     .results = "data",
     .attributes =
         "group_rows:extent group_columns:extent second_per_row:boolean~"},
    // Columns of each sorted row in its expert's order. With rows: the rows are
    // of pairs, and each row of the input has `pairs` of them.
    {.op = "permute_columns",
     .operands = "input rows? offsets order",
     .results = "result",
     .attributes = "experts:integer columns:integer pairs:integer~"},
    // gate_up: gate and up rows have groups of scales of their own.
    // rhs_second_per_row: each row of rhs has a second scale, else each part.
    // lhs_second_per_row: each row of lhs has one, else all have the largest.
    // fragments: rhs, rhs_scale and rhs_zero_point are in that order.
    // add_bias: 0 where another rank adds it.
    {.op = "grouped_matmul",
     .operands = "lhs rows? tiles tile_count rhs lhs_scale? rhs_scale? "
                 "rhs_second_scale? rhs_zero_point? bias? lhs_second_scale? "
                 "add_bias?",
     .results = "result",
     .attributes =
         "n:integer k:integer experts:integer pairs:integer~ gather:boolean "
         "interleave:integer gate_up_order:string~ lhs_group_rows:extent~ "
         "lhs_group_columns:extent~ "
         "rhs_group_rows:extent~ rhs_group_columns:extent~ gate_up:boolean~ "
         "rhs_second_per_row:boolean~ lhs_second_per_row:boolean~ "
         "fragments:boolean~"},
    // activation_*: a number of each expert, whose rows offsets or tiles say.
    {.op = "activate",
     .operands =
         "input offsets? addend? rows? tiles? tile_count? activation_alpha? "
         "activation_beta? activation_linear_beta? activation_limit?",
     .results = "result",
     .attributes =
         "function:string gated:boolean interleave:integer alpha:number? "
         "beta:number? limit:number? linear_beta:number~"},
    // identity and topk_ids: of pairs whose id is -2, the token's row of x.
    // add_identity: 0 where another rank adds it. output_type: of out, where it
    // stays inside of the kernel.
    {.op = "combine",
     .operands = "partials positions topk_weights? residual? addend? identity? "
                 "topk_ids? "
                 "add_identity?",
     .results = "out",
     .attributes = "pairs:integer hidden:integer output_type:string~"},
    // norm_weight: what is above 1 of the factors that columns have before the
    // norm, whose mean of squares gets epsilon.
    {.op = "combine_normed",
     .operands = "partials positions topk_weights norm_weight residual?",
     .results = "out",
     .attributes = "pairs:integer hidden:integer epsilon:number"},
    // experts: a pair whose id is that many or more has a row of constants.
    {.op = "combine_constants",
     .operands = "partials positions topk_weights topk_ids constants residual?",
     .results = "out",
     .attributes = "pairs:integer hidden:integer experts:integer "
                   "constants:integer"},
    // Into the windows of `ranks` ranks. experts: those that they share out;
    // where it is missing all have all. pairs: ids of a token.
    {.op = "dispatch",
     .operands = "x scale? second_scale? topk_ids topk_weights exchange_words "
                 "exchange_counter peers status rank",
     .results =
         "received_x received_scale? received_second_scale? received_ids "
         "received_weights",
     .attributes = "ranks:integer experts:integer~ pairs:integer"},
    {.op = "send_back",
     .operands =
         "partials topk_ids exchange_words exchange_counter peers status rank",
     .results = "back",
     .attributes = "ranks:integer experts:integer~ pairs:integer"},
    // The sum of the sums that owners sent back.
    {.op = "finalize",
     .operands = "partials topk_ids exchange_words",
     .results = "out",
     .attributes =
         "ranks:integer experts:integer~ pairs:integer hidden:integer"},
    {.op = "pack_copy",
     .operands = "source",
     .results = "destination",
     .attributes = "rows:integer columns:integer"},
    {.op = "pack_interleave",
     .operands = "source",
     .results = "destination",
     .attributes = "rows:integer columns:integer interleave:integer "
                   "gate_up_order:string~"},
    // Out of memory where elements of so many bits lie as a checkpoint has
    // them; slots: where in 32 bits the i-th one is. order: of the columns.
    // fragment_columns: columns of a block, where the result is in the order of
    // fragments. parts, repeat_rows, repeat_columns and alternate: each number
    // is that of so many rows and columns of the result, as pack_scales counts.
    // run: rows after which parts alternate, if not 1.
    // stored_rows, stored_columns: of the source, whose parts are padded apart.
    // atoms: the source is in atoms of 128 x 4.
    {.op = "pack_stored",
     .operands = "source order?",
     .results = "destination",
     .attributes =
         "rows:integer columns:integer interleave:integer "
         "gate_up_order:string~ "
         "bits:integer rows_last:boolean rows_per_word:integer "
         "columns_per_word:integer slots:string added:integer flipped:integer "
         "powers:boolean~ fragment_columns:integer~ parts:integer~ "
         "repeat_rows:integer~ repeat_columns:integer~ alternate:boolean~ "
         "run:integer~ stored_rows:integer~ stored_columns:integer~ "
         "atoms:boolean~"},
    // From the group of each column to columns in the order of their groups.
    {.op = "pack_order",
     .operands = "source",
     .results = "destination",
     .attributes = "columns:integer group:integer"},
    // Numbers of weights that are stored as floats. number: second_scale, scale
    // or zero_point, of each group; -1 stands for the whole extent of one of
    // the parts, whose rows alternate or follow each other.
    {.op = "pack_scales",
     .operands = "source scale? second_scale?",
     .results = "destination",
     .attributes =
         "rows:integer columns:integer parts:integer alternate:boolean "
         "group_rows:extent group_columns:extent element:string "
         "scale_type:string scale_rule:string~ zero_points:boolean "
         "number:string"},
    // stored: the floats' type.
    {.op = "pack_codes",
     .operands = "source scale second_scale? zero_point?",
     .results = "destination",
     .attributes =
         "rows:integer columns:integer parts:integer alternate:boolean "
         "group_rows:extent group_columns:extent element:string "
         "scale_type:string scale_rule:string~ zero_points:boolean "
         "stored:string "
         "interleave:integer gate_up_order:string~"},
};

/// The functions of the host device, each called as the `op` of its row.
#define MOEC_STAGES(STAGE)                                                     \
  STAGE(route)                                                                 \
  STAGE(count)                                                                 \
  STAGE(permute)                                                               \
  STAGE(pair_rows)                                                             \
  STAGE(batch)                                                                 \
  STAGE(shared_rows)                                                           \
  STAGE(amax)                                                                  \
  STAGE(quantize)                                                              \
  STAGE(dequantize)                                                            \
  STAGE(permute_columns)                                                       \
  STAGE(grouped_matmul)                                                        \
  STAGE(activate)                                                              \
  STAGE(combine)                                                               \
  STAGE(combine_normed)                                                        \
  STAGE(combine_constants)                                                     \
  STAGE(dispatch)                                                              \
  STAGE(send_back)                                                             \
  STAGE(finalize)                                                              \
  STAGE(pack_copy)                                                             \
  STAGE(pack_interleave)                                                       \
  STAGE(pack_stored)                                                           \
  STAGE(pack_order)                                                            \
  STAGE(pack_scales)                                                           \
  STAGE(pack_codes)

constexpr const StageKind *findStageKind(std::string_view op) {
  for (const StageKind &kind : kStageKinds)
    if (kind.op == op)
      return &kind;
  return nullptr;
}

// NOLINTNEXTLINE(bugprone-macro-parentheses): an addend of a sum
#define MOEC_STAGE(op) +(findStageKind(#op) != nullptr)
static_assert(std::size(kStageKinds) == 0U MOEC_STAGES(MOEC_STAGE),
              "each row has a function of the host device");
#undef MOEC_STAGE
#define MOEC_STAGE(op)                                                         \
  static_assert(findStageKind(#op) != nullptr,                                 \
                "MOEC_STAGES has " #op ", and kStageKinds has no row of it");
MOEC_STAGES(MOEC_STAGE)
#undef MOEC_STAGE

/// Operands that are numbers of the rank that runs: arguments of kind size,
/// each with one expression. Every stage that has the name takes the same.
struct RankOperand {
  std::string_view name;
  std::string_view symbol; ///< of Manifest::ranks
};

inline constexpr RankOperand kRankOperands[] = {
    {.name = "local_begin", .symbol = "local_begin"},
    {.name = "add_bias", .symbol = "add_w2_bias"},
    {.name = "add_identity", .symbol = "add_zero_experts"},
    {.name = "rank", .symbol = "rank"},
};

constexpr const RankOperand *findRankOperand(std::string_view name) {
  for (const RankOperand &row : kRankOperands)
    if (row.name == name)
      return &row;
  return nullptr;
}

/// Integers that a stage reads or writes, and the types that kernels and the
/// host device know of them. What a stage writes is of 32 bits.
struct IntegerValue {
  std::string_view op = ""; ///< "" for each that has the name
  std::string_view name;    ///< of an operand or a result
  bool wide = false;        ///< i64 as well as i32
};

inline constexpr IntegerValue kIntegerValues[] = {
    {.name = "given_ids", .wide = true},
    {.name = "token_ids", .wide = true},
    {.name = "valid_tokens"},
    {.name = "hash_table"},
    {.name = "logical_to_physical"},
    {.name = "replica_count"},
    {.name = "expert_map"},
    {.name = "expert_num_tokens"},
    {.name = "topk_ids"},
    {.name = "ids"},
    {.name = "received_ids"},
    {.name = "exchange_words", .wide = true},
    {.name = "exchange_counter"},
    {.name = "block_counts"},
    {.name = "rows"},
    {.name = "positions"},
    {.name = "offsets"},
    {.name = "tiles"},
    {.name = "tile_count"},
    {.name = "counts"},
    {.name = "order"},
    {.op = "pack_order", .name = "source"},
    {.op = "pack_order", .name = "destination"},
};

constexpr const IntegerValue *findIntegerValue(std::string_view op,
                                               std::string_view name) {
  for (const IntegerValue &value : kIntegerValues)
    if (value.name == name && (value.op.empty() || value.op == op))
      return &value;
  return nullptr;
}

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_STAGES_H

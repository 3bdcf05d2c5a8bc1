//===- Stages.h - the kinds of stages of a manifest -------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A table with one row per kind of stage: its operands, results and attributes.
// The validator checks the stages of every kernel against this table. The host
// device has one function per row. docs/reference/manifest-stages.md documents
// the table (a test compares the document with the table).
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_STAGES_H
#define MOEC_RUNTIME_PACKAGE_STAGES_H

#include "runtime/support/WordList.h"

#include <iterator>
#include <string_view>

namespace moec {

/// `operands` and `results` list names; a trailing '?' marks an optional name.
/// `attributes` lists names with types: "n:integer", "gather:boolean",
/// "score:string", "scale:number", "limit:number?" (the '?' allows null). A
/// trailing '~' marks an attribute that may be absent.
struct StageKind {
  std::string_view op;
  WordList operands;
  WordList results;
  WordList attributes;
};

inline constexpr StageKind kStageKinds[] = {
    // output_scale: a factor of the result topk_weights (the weights of the
    // combine), but not of the result `weights` (for the caller).
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
    // block_tokens, most_blocks: the number of tokens per block is the smallest
    // multiple of block_tokens for which there are at most most_blocks blocks.
    // If most_blocks is absent, there is no limit.
    {.op = "count",
     .operands = "topk_ids",
     .results = "block_counts",
     .attributes = "experts:integer local_experts:integer block_tokens:integer "
                   "most_blocks:integer~"},
    // row_step: all tiles of an expert except the last one have the same number
    // of rows, a multiple of row_step. counters: number of zeros that follow
    // the tile count, 2 if absent. local_begin: the first of the local_experts;
    // 0 if a rank has all experts.
    {.op = "permute",
     .operands = "topk_ids block_counts local_begin?",
     .results = "rows positions offsets tiles tile_count counts?",
     .attributes =
         "experts:integer local_experts:integer pairs:integer "
         "block_tokens:integer most_blocks:integer~ tile_rows:integer "
         "row_step:integer~ counters:integer~"},
    // positions: the row of pair i of token t is t * pairs + i, or -1 if the
    // pair's expert is not local. local_begin: as for permute.
    {.op = "pair_rows",
     .operands = "topk_ids local_begin?",
     .results = "positions",
     .attributes = "experts:integer local_experts:integer pairs:integer"},
    // The rows are grouped by expert: the rows of expert e start at row e *
    // tokens.
    {.op = "batch",
     .operands = "expert_num_tokens",
     .results = "tiles tile_count",
     .attributes = "experts:integer tile_rows:integer row_step:integer~"},
    // Creates the rows of a single expert that processes every token, such as
    // the MLP of shared experts: row t is token t.
    {.op = "shared_rows",
     .operands = "valid_tokens? shared_gate?",
     .results = "tiles tile_count offsets positions topk_weights",
     .attributes = "tile_rows:integer row_step:integer~"},
    // propagates_nan: the maximum of a block that contains a NaN is NaN. A
    // group extent of -1 means the whole extent. block_rows: number of rows per
    // block maximum; a dynamic per-tensor scale is computed from all block
    // maxima. row_weights: weights of a token's pairs; each pair's row is the
    // token's row times the weight, and is quantized afterwards. Without a
    // scale result, the products are only rounded. emulates: an element type;
    // the result `data` holds the values that codes (quantized values) of this
    // type represent. second_per_row: scales are e4m3 and have a second scale,
    // one per row if true, one for all rows if false. scale_rule: rounding rule
    // for power-of-two scales.
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
    // Computes the values that quantized x represents. There is one second
    // scale for all rows, or one per row.
    {.op = "dequantize",
     .operands = "input scale second_scale? expert_num_tokens?",
     .results = "data",
     .attributes =
         "group_rows:extent group_columns:extent second_per_row:boolean~"},
    // Permutes the columns of each sorted row into the column order of its
    // expert. With `rows`, results are stored in pair order, and `pairs`
    // consecutive result rows come from the same token.
    {.op = "permute_columns",
     .operands = "input rows? offsets order",
     .results = "result",
     .attributes = "experts:integer columns:integer pairs:integer~"},
    // Without `positions`, result row r is input row rows[r], sorted by expert.
    // With `positions`, the result has a row per pair, which is 0 if the pair's
    // position is -1.
    {.op = "gather_rows",
     .operands = "input rows? offsets? positions?",
     .results = "result",
     .attributes = "columns:integer experts:integer~ pairs:integer~"},
    // gate_up: gate and up rows have separate scale groups. rhs_second_per_row:
    // each row of rhs has a second scale; otherwise the gate part and the up
    // part each have one. lhs_second_per_row: each row of lhs has its own
    // second scale; otherwise the largest given second scale applies to all
    // rows. fragments: rhs, rhs_scale and rhs_zero_point are in fragment order;
    // of 8-bit lhs_scale, rhs_scale only. add_bias: 0: another rank adds it.
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
    // activation_*: one value per expert. `offsets` or `tiles` define the
    // expert of each row.
    {.op = "activate",
     .operands =
         "input offsets? addend? rows? tiles? tile_count? activation_alpha? "
         "activation_beta? activation_linear_beta? activation_limit?",
     .results = "result",
     .attributes =
         "function:string gated:boolean interleave:integer alpha:number? "
         "beta:number? limit:number? linear_beta:number~"},
    // identity, topk_ids: the token's row of `identity` is the partial result
    // of a pair whose id is -2. add_identity: 0 if another rank adds this row.
    // output_type: the element type of `out` if `out` exists only inside the
    // kernel.
    {.op = "combine",
     .operands = "partials positions topk_weights? residual? addend? identity? "
                 "topk_ids? "
                 "add_identity?",
     .results = "out",
     .attributes = "pairs:integer hidden:integer output_type:string~"},
    // norm_weight: (per-column factor - 1); the factors are applied before the
    // norm. epsilon: added to the mean square.
    {.op = "combine_normed",
     .operands = "partials positions topk_weights norm_weight residual?",
     .results = "out",
     .attributes = "pairs:integer hidden:integer epsilon:number"},
    // experts: a pair whose id is at least `experts` uses row (id - experts) of
    // constants.
    {.op = "combine_constants",
     .operands = "partials positions topk_weights topk_ids constants residual?",
     .results = "out",
     .attributes = "pairs:integer hidden:integer experts:integer "
                   "constants:integer"},
    // Writes tokens to the windows of `ranks` ranks. experts: number of
    // experts, which are divided among the ranks; if it is absent, all ranks
    // have all experts. pairs: number of ids per token.
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
    // Adds the partial results that the token's owners sent back.
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
    // Converts elements of `bits` bits from a checkpoint's layout.
    //
    // A 32-bit word may have rows_per_word x columns_per_word elements. slots:
    // the position of each in the word. added, flipped: such an element is
    // (stored bits + added) ^ flipped. rows_last: the words of a column, not of
    // a row, are contiguous. powers: elements are 8-bit exponents, which are
    // converted to f32. atoms: the source consists of scale blocks of 128 x 4
    // elements. stored_rows, stored_columns: extents of the source; each part
    // is padded separately.
    //
    // order: column order. fragment_columns: columns of a fragment block if the
    // result is in fragment order. Each stored element is used for repeat_rows
    // x repeat_columns elements of the result. parts, alternate: as for
    // pack_scales. run: alternating parts change after `run` rows; 1 if absent.
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
    // Computes the column order (columns sorted by group) from the group index
    // of each column.
    {.op = "pack_order",
     .operands = "source",
     .results = "destination",
     .attributes = "columns:integer group:integer"},
    // Computes group parameters for weights that are stored as floats. number:
    // the parameter, one of second_scale, scale or zero_point. A group extent
    // of -1 means the whole extent of a part. parts: 2 if the weight has gate
    // and up rows, else 1. alternate: true if rows of the parts alternate;
    // false if the second part follows the whole first part.
    {.op = "pack_scales",
     .operands = "source scale? second_scale?",
     .results = "destination",
     .attributes =
         "rows:integer columns:integer parts:integer alternate:boolean "
         "group_rows:extent group_columns:extent element:string "
         "scale_type:string scale_rule:string~ zero_points:boolean "
         "number:string"},
    // stored: element type of the stored floats.
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

/// The stages that the host device implements, named after the `op` of each
/// row.
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
  STAGE(gather_rows)                                                           \
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

/// Operands that are properties of the rank that runs: arguments of kind Size
/// whose expression is a single symbol. The name has the same meaning in every
/// stage.
struct RankOperand {
  std::string_view name;
  std::string_view symbol; ///< symbol for a field of Manifest::ranks
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

/// The integer operands and results of stages. Kernels and the host device
/// support only the listed widths. Stages write only 32-bit integers.
struct IntegerValue {
  /// "": any stage with an operand or result of this name.
  std::string_view op = "";
  std::string_view name; ///< name of an operand or a result
  bool wide = false;     ///< i64 is also allowed
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

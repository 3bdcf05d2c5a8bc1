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

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>

namespace moec {

/// A space-separated list of names; a trailing '?' marks an optional one.
/// Attributes carry their type: "n:integer", "gather:boolean",
/// "score:string", "scale:number", "limit:number?" (the '?' allows null); a
/// trailing '~' marks one that may be missing.
struct StageKind {
  std::string_view op;
  std::string_view operands;
  std::string_view results;
  std::string_view attributes;
};

inline constexpr StageKind kStageKinds[] = {
    // output_scale: of topk_weights, with which outputs are summed, alone.
    {"route",
     "logits? given_ids? given_weights? valid_tokens? routing_bias? "
     "expert_scale? token_ids? hash_table? logical_to_physical? "
     "replica_count? expert_map? shared_gate? local_begin?",
     "topk_ids topk_weights ids? weights?",
     "score:string select:string normalize:string experts:integer "
     "top_k:integer groups:integer top_groups:integer scale:number "
     "output_scale:number~ table_rows:integer~ "
     "physical_experts:integer~ replica_slots:integer~ shared:integer~ "
     "zero:integer~"},
    // most_blocks: a block has the smallest multiple of block_tokens tokens
    // with
    // which so many suffice; no bound where it is missing.
    {"count", "topk_ids", "block_counts",
     "experts:integer local_experts:integer block_tokens:integer "
     "most_blocks:integer~"},
    // row_step: an expert's tiles are alike, in steps of so many rows.
    // counters: zeros behind the number of tiles, 2 where it is missing.
    // local_begin: the first of local_experts; 0 where a rank holds all.
    {"permute", "topk_ids block_counts local_begin?",
     "rows positions offsets tiles tile_count counts?",
     "experts:integer local_experts:integer pairs:integer "
     "block_tokens:integer most_blocks:integer~ tile_rows:integer "
     "row_step:integer~ counters:integer~"},
    // Rows in the order of pairs; local_begin as of permute.
    {"pair_rows", "topk_ids local_begin?", "positions",
     "experts:integer local_experts:integer pairs:integer"},
    // Rows that come by expert, each expert's at a multiple of tokens.
    {"batch", "expert_num_tokens", "tiles tile_count",
     "experts:integer tile_rows:integer row_step:integer~"},
    // Rows of one expert that every token takes, as an MLP of shared experts
    // is:
    // row t is token t.
    {"shared_rows", "valid_tokens? shared_gate?",
     "tiles tile_count offsets positions topk_weights",
     "tile_rows:integer row_step:integer~"},
    // -1 stands for the whole extent. block_rows: of the maxima that a dynamic
    // scale of all values is made from.
    // row_weights: of the pairs of a token, which multiply its row first.
    // Without a scale as a result, the products are rounded alone; or data are
    // what codes of the element type that they emulate stand for, with
    // second_per_row where their scales are e4m3 and scaled themselves.
    // scale_rule: where scales are powers of two.
    {"amax", "input row_weights? offsets? expert_num_tokens? valid_tokens?",
     "block_amax", "block_rows:integer pairs:integer~"},
    {"quantize",
     "input row_weights? static_scale? static_second_scale? block_amax? "
     "offsets? "
     "expert_num_tokens? valid_tokens?",
     "data scale?",
     "group_rows:extent~ group_columns:extent~ dynamic:boolean "
     "block_rows:integer pairs:integer~ emulates:string~ scale_rule:string~ "
     "second_per_row:boolean~"},
    // What codes of x stand for; a second scale of all or of each row.
    {"dequantize", "input scale second_scale? expert_num_tokens?", "data",
     "group_rows:extent group_columns:extent second_per_row:boolean~"},
    // Columns of each sorted row in its expert's order. With rows: the rows are
    // of pairs, and each row of the input has `pairs` of them.
    {"permute_columns", "input rows? offsets order", "result",
     "experts:integer columns:integer pairs:integer~"},
    // gate_up: gate and up rows have groups of scales of their own.
    // rhs_second_per_row: each row of rhs has a second scale, else each part.
    // fragments: rhs, rhs_scale and rhs_zero_point are in that order.
    // add_bias: 0 where another rank adds it.
    {"grouped_matmul",
     "lhs rows? tiles tile_count rhs lhs_scale? rhs_scale? "
     "rhs_second_scale? rhs_zero_point? bias? add_bias?",
     "result",
     "n:integer k:integer experts:integer pairs:integer~ gather:boolean "
     "interleave:integer gate_up_order:string~ lhs_group_rows:extent~ "
     "lhs_group_columns:extent~ "
     "rhs_group_rows:extent~ rhs_group_columns:extent~ gate_up:boolean~ "
     "rhs_second_per_row:boolean~ fragments:boolean~"},
    // activation_*: a number of each expert, whose rows offsets or tiles say.
    {"activate",
     "input offsets? addend? rows? tiles? tile_count? activation_alpha? "
     "activation_beta? activation_linear_beta? activation_limit?",
     "result",
     "function:string gated:boolean interleave:integer alpha:number? "
     "beta:number? limit:number? linear_beta:number~"},
    // identity and topk_ids: of pairs whose id is -2, the token's row of x.
    // add_identity: 0 where another rank adds it. output_type: of out, where it
    // stays inside of the kernel.
    {"combine",
     "partials positions topk_weights? residual? addend? identity? topk_ids? "
     "add_identity?",
     "out", "pairs:integer hidden:integer output_type:string~"},
    // Into the windows of `ranks` ranks. experts: those that they share out;
    // where it is missing all have all. pairs: ids of a token.
    {"dispatch",
     "x scale? second_scale? topk_ids topk_weights exchange_words "
     "exchange_counter peers status rank",
     "received_x received_scale? received_second_scale? received_ids "
     "received_weights",
     "ranks:integer experts:integer~ pairs:integer"},
    {"send_back",
     "partials topk_ids exchange_words exchange_counter peers status rank",
     "back", "ranks:integer experts:integer~ pairs:integer"},
    // The sum of the sums that owners sent back.
    {"finalize", "partials topk_ids exchange_words", "out",
     "ranks:integer experts:integer~ pairs:integer hidden:integer"},
    {"pack_copy", "source", "destination", "rows:integer columns:integer"},
    {"pack_interleave", "source", "destination",
     "rows:integer columns:integer interleave:integer gate_up_order:string~"},
    // Out of memory where elements of so many bits lie as a checkpoint has
    // them; slots: where in 32 bits the i-th one is. order: of the columns.
    // fragment_columns: columns of a block, where the result is in the order of
    // fragments. parts, repeat_rows, repeat_columns and alternate: each number
    // is that of so many rows and columns of the result, as pack_scales counts.
    // run: rows after which parts alternate, if not 1.
    // stored_rows, stored_columns: of the source, whose parts are padded apart.
    // atoms: the source is in atoms of 128 x 4.
    {"pack_stored", "source order?", "destination",
     "rows:integer columns:integer interleave:integer gate_up_order:string~ "
     "bits:integer rows_last:boolean rows_per_word:integer "
     "columns_per_word:integer slots:string added:integer flipped:integer "
     "powers:boolean~ fragment_columns:integer~ parts:integer~ "
     "repeat_rows:integer~ repeat_columns:integer~ alternate:boolean~ "
     "run:integer~ stored_rows:integer~ stored_columns:integer~ "
     "atoms:boolean~"},
    // From the group of each column to columns in the order of their groups.
    {"pack_order", "source", "destination", "columns:integer group:integer"},
    // Of weights that are stored as floats. number: second_scale, scale or
    // zero_point, of each group; -1 stands for the whole extent of one of the
    // parts, whose rows alternate or follow each other.
    {"pack_scales", "source scale? second_scale?", "destination",
     "rows:integer columns:integer parts:integer alternate:boolean "
     "group_rows:extent group_columns:extent element:string "
     "scale_type:string scale_rule:string~ zero_points:boolean number:string"},
    // stored: the floats' type.
    {"pack_codes", "source scale second_scale? zero_point?", "destination",
     "rows:integer columns:integer parts:integer alternate:boolean "
     "group_rows:extent group_columns:extent element:string "
     "scale_type:string scale_rule:string~ zero_points:boolean stored:string "
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

/// Operands that are numbers of the rank that runs: arguments of kind size,
/// each with one expression. Every stage that has the name takes the same.
struct RankOperand {
  std::string_view name;
  std::string_view symbol; ///< of Manifest::ranks
};

inline constexpr RankOperand kRankOperands[] = {
    {"local_begin", "local_begin"},
    {"add_bias", "add_w2_bias"},
    {"add_identity", "add_zero_experts"},
    {"rank", "rank"},
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
  std::string_view op;   ///< "" for each that has the name
  std::string_view name; ///< of an operand or a result
  bool wide = false;     ///< i64 as well as i32
};

inline constexpr IntegerValue kIntegerValues[] = {
    {"", "given_ids", true},
    {"", "token_ids", true},
    {"", "valid_tokens"},
    {"", "hash_table"},
    {"", "logical_to_physical"},
    {"", "replica_count"},
    {"", "expert_map"},
    {"", "expert_num_tokens"},
    {"", "topk_ids"},
    {"", "ids"},
    {"", "received_ids"},
    {"", "exchange_words", true},
    {"", "exchange_counter"},
    {"", "block_counts"},
    {"", "rows"},
    {"", "positions"},
    {"", "offsets"},
    {"", "tiles"},
    {"", "tile_count"},
    {"", "counts"},
    {"", "order"},
    {"pack_order", "source"},
    {"pack_order", "destination"},
};

constexpr const IntegerValue *findIntegerValue(std::string_view op,
                                               std::string_view name) {
  for (const IntegerValue &value : kIntegerValues)
    if (value.name == name && (value.op.empty() || value.op == op))
      return &value;
  return nullptr;
}

/// Experts of a layer, and what is counted like them: a stage keeps something
/// for each.
inline constexpr int64_t kMostExperts = 1 << 16;

/// Calls `visit` with each word of a list.
template <typename Visit>
constexpr void forEachWord(std::string_view list, Visit visit) {
  while (!list.empty()) {
    size_t space = list.find(' ');
    visit(list.substr(0, space));
    list.remove_prefix(space == std::string_view::npos ? list.size()
                                                       : space + 1);
  }
}

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_STAGES_H

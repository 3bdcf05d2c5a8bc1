//===- Kernels.h - kinds of kernels -----------------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// kKernelKinds has one row for each kind of kernel: a template and the stages
// that it fuses. A moe.kernel names its kind; passes and emitters read the row
// of that kind. compiler/kernels implements the arguments, members, grids and
// schedules that a row cannot express.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_DIALECT_CATALOG_KERNELS_H
#define MOEC_DIALECT_CATALOG_KERNELS_H

#include "dialect/catalog/Catalog.h"

namespace moec::catalog {

struct KernelKind {
  std::string_view name;
  std::string_view header;   ///< file in templates/moe/kernel
  std::string_view function; ///< template in namespace moe
  /// The stages in order. '?' follows an optional stage.
  WordList stages;
  /// Fields that a programmatic dependent launch reads before its predecessor
  /// launch ends, if that launch does not write them.
  WordList early = {};
  /// Every CTA computes the routing itself, for few tokens.
  bool routesItself = false;
  /// The fields of the argument block: operands and results by name, `x.stride`
  /// for the row stride of x, `tokens` for the number of tokens, and the
  /// per-rank values of runtime/package/Stages.h. An optional operand that is
  /// absent has no field. Empty: compiler/kernels defines the block.
  WordList arguments = {};
  /// Members of Config. `Type:operand` is a type: the element type of an
  /// operand. A word such as `experts` is a fact of the kernel, a named value
  /// (compiler/plan/KernelFacts.h) that is printed as kExperts. `fact=other`
  /// uses another fact, a literal number or a flag if the fact is absent.
  WordList members = {};
  /// The number of CTAs, with facts in braces. Empty: compiler/kernels computes
  /// it.
  std::string_view grid = "";
  /// The sizes in the entry's name, with facts in braces. Empty:
  /// compiler/kernels sets them.
  std::string_view label = "";
};

inline constexpr WordList kRoutingInputs =
    "logits given_ids given_weights valid_tokens";

inline constexpr KernelKind kKernelKinds[] = {
    {.name = "route",
     .header = "route.cuh",
     .function = "route",
     .stages = "route count quantize?",
     .label = "{block_tokens}"},
    {.name = "route_permute",
     .header = "route.cuh",
     .function = "route",
     .stages = "route count permute quantize?",
     .label = "{block_tokens}"},
    {.name = "route_pairs",
     .header = "route.cuh",
     .function = "route",
     .stages = "route count pair_rows",
     .label = "{block_tokens}"},
    {.name = "permute",
     .header = "permute.cuh",
     .function = "permute",
     .stages = "permute",
     .arguments = "topk_ids block_counts local_begin tokens rows positions "
                  "offsets tiles tile_count counts",
     .members = "experts local_experts pairs block_tokens most_blocks=0 "
                "tile_rows row_step=tile_rows counters=2",
     .label = "{block_tokens}x{tile_rows}"},
    {.name = "batch",
     .header = "batch.cuh",
     .function = "batch",
     .stages = "batch",
     .arguments = "expert_num_tokens tokens tiles tile_count",
     .members = "local_experts=experts tile_rows row_step=tile_rows",
     .grid = "1",
     .label = "{tile_rows}"},
    {.name = "shared_rows",
     .header = "shared_rows.cuh",
     .function = "sharedRows",
     .stages = "shared_rows",
     .members = "tile_rows row_step=tile_rows",
     .grid = "ceildiv(tokens, {threads})",
     .label = "{tile_rows}"},
    {.name = "grouped_matmul",
     .header = "grouped_matmul.cuh",
     .function = "groupedMatmul",
     .stages = "grouped_matmul activate? quantize?",
     .early = "tiles tile_count"},
    {.name = "activate",
     .header = "activate.cuh",
     .function = "activate",
     .stages = "activate",
     .arguments = "input offsets addend rows activation_alpha activation_beta "
                  "activation_linear_beta activation_limit result",
     .grid = "rows"},
    {.name = "combine",
     .header = "combine.cuh",
     .function = "combine",
     .stages = "combine",
     .early = "positions topk_weights topk_ids",
     .arguments = "partials positions topk_weights tokens out residual addend "
                  "identity identity.stride topk_ids add_identity",
     .members = "Input:identity Partial:partials Output:out pairs hidden "
                "column_blocks places_early=early"},
    {.name = "combine_normed",
     .header = "combine_normed.cuh",
     .function = "combineNormed",
     .stages = "combine_normed",
     .early = "positions topk_weights",
     .arguments = "partials positions topk_weights norm_weight tokens out "
                  "residual",
     .members = "Partial:partials Output:out pairs hidden places_early=early",
     .grid = "tokens",
     .label = "1x{hidden}"},
    {.name = "combine_constants",
     .header = "combine_constants.cuh",
     .function = "combineConstants",
     .stages = "combine_constants",
     .early = "positions topk_weights topk_ids",
     .arguments = "partials positions topk_weights topk_ids constants tokens "
                  "out residual",
     .members = "Partial:partials Output:out pairs hidden experts "
                "column_blocks places_early=early"},
    // Communication between ranks: a kernel that writes into the windows of
    // other ranks ends when all ranks have written.
    {.name = "dispatch",
     .header = "dispatch.cuh",
     .function = "dispatch",
     .stages = "dispatch",
     .early = "topk_ids",
     .arguments = "x scale second_scale topk_ids topk_weights tokens "
                  "received_x received_scale received_second_scale "
                  "received_ids received_weights exchange_words "
                  "exchange_counter peers status rank",
     .members = "ranks experts=0 pairs x_bytes scale_bytes=0 "
                "second_scale_bytes=0 ids_early=early",
     .grid = "min(ceildiv(tokens * {x_pieces}, 16), sm_count)",
     .label = "{ranks}x{x_bytes}"},
    {.name = "send_back",
     .header = "send_back.cuh",
     .function = "sendBack",
     .stages = "send_back",
     .early = "topk_ids",
     .arguments = "partials topk_ids tokens back exchange_words "
                  "exchange_counter peers status rank",
     .members = "ranks experts=0 pairs partials_bytes ids_early=early",
     .grid = "min(ceildiv(tokens * {partials_pieces}, 16), sm_count)",
     .label = "{ranks}x{partials_bytes}"},
    {.name = "combine_send_back",
     .header = "combine_send_back.cuh",
     .function = "combineSendBack",
     .stages = "combine send_back",
     .early = "positions topk_weights topk_ids",
     .arguments = "partials positions topk_weights topk_ids tokens back "
                  "exchange_words exchange_counter peers status rank",
     .members = "Partial:partials Output:out ranks experts=0 pairs hidden "
                "column_blocks places_early=early"},
    {.name = "finalize",
     .header = "finalize.cuh",
     .function = "finalize",
     .stages = "finalize",
     .early = "topk_ids",
     .arguments = "partials topk_ids tokens out exchange_words",
     .members = "Partial:partials Output:out ranks experts=0 pairs hidden "
                "column_blocks ids_early=early"},
    {.name = "permute_columns",
     .header = "permute_columns.cuh",
     .function = "permuteColumns",
     .stages = "permute_columns",
     .arguments = "input input.stride rows offsets order result",
     .members = "Element:input columns experts pairs=1",
     .grid = "rows"},
    {.name = "gather_rows",
     .header = "gather_rows.cuh",
     .function = "gatherRows",
     .stages = "gather_rows",
     .arguments = "input rows offsets positions result",
     .members = "Element:input columns experts=0",
     .grid = "rows"},
    {.name = "amax",
     .header = "quantize.cuh",
     .function = "amax",
     .stages = "amax"},
    {.name = "quantize",
     .header = "quantize.cuh",
     .function = "quantize",
     .stages = "quantize"},
    {.name = "dequantize",
     .header = "dequantize.cuh",
     .function = "dequantize",
     .stages = "dequantize",
     .arguments = "input input.stride scale second_scale expert_num_tokens "
                  "tokens data",
     .members = "columns scale_rows=group_rows scale_columns=group_columns "
                "second_per_row=false experts=rank_experts",
     .label = "1x8"},
    {.name = "route_gate_up",
     .header = "route_gate_up.cuh",
     .function = "routeGateUp",
     .stages = "route count permute amax? quantize? grouped_matmul activate",
     .routesItself = true,
     .label = "{schedule_tokens}"},
    {.name = "down_combine",
     .header = "down_combine.cuh",
     .function = "downCombine",
     .stages = "route count permute amax? quantize? grouped_matmul combine",
     .early = kRoutingInputs,
     .routesItself = true,
     .label = "{schedule_tokens}"},
    {.name = "down_slices",
     .header = "down_slices.cuh",
     .function = "downSlices",
     .stages = "grouped_matmul combine",
     .early = "tiles tile_count"},
    // Packing, once per layer: the steps of moe.pack, moe.pack_order and
    // moe.quantize_weights.
    {.name = "pack_copy",
     .header = "pack.cuh",
     .function = "packCopy",
     .stages = "pack_copy"},
    {.name = "pack_interleave",
     .header = "pack.cuh",
     .function = "packInterleave",
     .stages = "pack_interleave"},
    {.name = "pack_stored",
     .header = "pack.cuh",
     .function = "packStored",
     .stages = "pack_stored"},
    {.name = "pack_order",
     .header = "pack_order.cuh",
     .function = "packOrder",
     .stages = "pack_order"},
    {.name = "pack_scales",
     .header = "quantize_weights.cuh",
     .function = "packScales",
     .stages = "pack_scales"},
    {.name = "pack_codes",
     .header = "quantize_weights.cuh",
     .function = "packCodes",
     .stages = "pack_codes"},
};

/// Returns true if a kernel of the kind can hold exactly these stages in this
/// order.
constexpr bool holds(const KernelKind &kind, WordList stages) {
  auto next = stages.begin();
  for (std::string_view word : kind.stages) {
    const bool isOptional = word.ends_with('?');
    if (isOptional)
      word.remove_suffix(1);
    if (next != stages.end() && *next == word)
      ++next;
    else if (!isOptional)
      return false;
  }
  return next == stages.end();
}

/// Returns the kind that holds these stages, or null.
constexpr const KernelKind *kindOf(WordList stages) {
  for (const KernelKind &kind : kKernelKinds)
    if (holds(kind, stages))
      return &kind;
  return nullptr;
}

} // namespace moec::catalog

#endif // MOEC_DIALECT_CATALOG_KERNELS_H

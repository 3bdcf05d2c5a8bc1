//===- WriteLayerJson.cpp - writes moec's layer JSON ----------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes a layer JSON, the inverse of LayerJson.cpp. Fields that have their
// default are omitted.
//
//===----------------------------------------------------------------------===//

#include "compiler/import/Formats.h"

#include "compiler/import/LayerFields.h"

#include <nlohmann/json.hpp>

using namespace moec;
using namespace moec::compiler;
using Fields = nlohmann::ordered_json;

namespace {

void addField(const LayerField &row, LayerDescription &layer, Fields &out) {
  LayerDescription plain;
  std::visit(
      [&](auto slot) {
        const auto &value = slot(layer);
        if (value == slot(plain) && !row.isRequired)
          return;
        if constexpr (requires { value.has_value(); })
          out[std::string(row.name)] = *value;
        else
          out[std::string(row.name)] = value;
      },
      row.slot);
}

void addText(Fields &out, const char *key, const std::string &text) {
  if (!text.empty())
    out[key] = text;
}

void addFlag(Fields &out, const char *key, bool flag) {
  if (flag)
    out[key] = true;
}

Fields descriptorFields(const DescriptorDescription &descriptor) {
  Fields out = {{"dtype", descriptor.element}};
  if (!descriptor.group.empty())
    out["shape"] = descriptor.group;
  addText(out, "scale", descriptor.scale);
  addText(out, "alpha_or_gscale", descriptor.secondScale);
  addText(out, "zp", descriptor.zeroPoint);
  addFlag(out, "dynamic", descriptor.dynamic);
  addFlag(out, "second_per_row", descriptor.secondPerRow);
  addText(out, "scale_rule", descriptor.scaleRule);
  return out;
}

void addQuant(const QuantDescription &quant, Fields &layer) {
  if (quant == QuantDescription())
    return;
  Fields out;
  if (!quant.scheme.empty()) {
    if (quant.groupSize == 0 && !quant.scalesSwizzled) {
      layer["quant_config"] = quant.scheme;
      return;
    }
    out["scheme"] = quant.scheme;
  } else {
    out["a1"] = descriptorFields(quant.a1);
    out["a2"] = descriptorFields(quant.a2);
    out["w1"] = descriptorFields(quant.w1);
    out["w2"] = descriptorFields(quant.w2);
  }
  if (quant.groupSize != 0)
    out["group_size"] = quant.groupSize;
  addFlag(out, "is_scale_swizzled", quant.scalesSwizzled);
  layer["quant_config"] = out;
}

void addRouting(const RoutingDescription &routing, Fields &out) {
  if (routing.method != "auto") {
    out["routing_method"] = routing.method;
  } else {
    addText(out, "scoring_func", routing.scoring);
    if (routing.renormalize)
      out["renormalize"] = *routing.renormalize;
  }
  if (routing.groups > 0) {
    out["num_expert_group"] = routing.groups;
    out["topk_group"] = routing.topGroups;
  }
}

void addParallel(const ParallelDescription &parallel, Fields &layer) {
  if (parallel == ParallelDescription())
    return;
  Fields out = {{"tp_size", parallel.tp},   {"tp_rank", parallel.tpRank},
                {"pcp_size", parallel.pcp}, {"pcp_rank", parallel.pcpRank},
                {"dp_size", parallel.dp},   {"dp_rank", parallel.dpRank},
                {"sp_size", parallel.sp},   {"use_ep", parallel.ep}};
  out["expert_placement_strategy"] = parallel.placement;
  addFlag(out, "enable_eplb", parallel.eplb);
  addText(out, "all2all_backend", parallel.allToAll);
  layer["moe_parallel_config"] = out;
}

} // namespace

Result<std::string> moec::compiler::writeLayerJson(LayerDescription layer) {
  if (!layer.part.empty())
    return refused("--emit=layer-json: expected no --part, which a layer JSON "
                   "does not say; accepted: the same where it is compiled");
  if (layer.parallel.allRanks)
    return refused("--emit=layer-json: expected no --all-ranks, which a layer "
                   "JSON does not say; accepted: the same where it is "
                   "compiled");
  Fields out = {{"moec_layer", 1}, {"name", layer.name}};
  for (const LayerField &row : layerFields())
    if (!row.isInner)
      addField(row, layer, out);
  addRouting(layer.routing, out);
  addQuant(layer.quant, out);
  addParallel(layer.parallel, out);
  return out.dump(2) + "\n";
}

//===- MoeDecisionAttrs.cpp - attributes of decisions ---------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifiers of the attributes that describe the target, weight layouts,
// workspace regions, and the resolver's candidates, choices and report.
//
//===----------------------------------------------------------------------===//

#include "dialect/FieldParser.h"
#include "dialect/Moe.h"
#include "dialect/catalog/Backends.h"
#include "dialect/catalog/Engines.h"
#include "dialect/catalog/Realizations.h"

using namespace mlir;
using namespace moec;
using namespace moec::moe;

/// Returns true if both realizations yield the same program: `native` and
/// `dequantized` differ only in the engine.
static bool isSameLayer(StringRef realization, StringRef other) {
  const auto isExact = [](StringRef word) {
    return word.empty() || word == "native" || word == "dequantized";
  };
  return realization == other || (isExact(realization) && isExact(other));
}

//===----------------------------------------------------------------------===//
// TargetAttr
//===----------------------------------------------------------------------===//

const catalog::Architecture &TargetAttr::getArchRow() const {
  return *catalog::find(catalog::kArchitectures, getArch());
}

const catalog::Gpu *TargetAttr::getGpuRow() const {
  const StringRef gpu = getGpu();
  return catalog::find(catalog::kGpus,
                       gpu.empty() ? StringRef(getArchRow().gpu) : gpu);
}

LogicalResult TargetAttr::verify(EmitError emitError, StringRef arch,
                                 StringRef gpu) {
  if (verifyWord(emitError, catalog::kArchitectures, arch, "arch"))
    return failure();
  if (gpu.empty())
    return success();
  if (verifyWord(emitError, catalog::kGpus, gpu, "GPU"))
    return failure();
  const catalog::Architecture &code =
      *catalog::find(catalog::kArchitectures, arch);
  const catalog::Architecture &device = *catalog::find(
      catalog::kArchitectures, catalog::find(catalog::kGpus, gpu)->arch);
  if (!catalog::runsOn(code, device.major, device.minor))
    return emitError() << "code for " << arch << " does not run on GPU '" << gpu
                       << "', which is " << device.name;
  return success();
}

//===----------------------------------------------------------------------===//
// LayoutAttr
//===----------------------------------------------------------------------===//

LayoutAttr LayoutAttr::getStored(MLIRContext *context, StringRef row,
                                 ArrayRef<int64_t> padded) {
  return get(context, 0, StringRef("gate_first"), StringRef("rows"),
             ArrayRef<int64_t>(), row, padded);
}

LogicalResult LayoutAttr::verify(EmitError emitError, int64_t interleave,
                                 StringRef gateUpOrder, StringRef order,
                                 ArrayRef<int64_t> tile, StringRef stored,
                                 ArrayRef<int64_t> padded) {
  if (interleave < 0)
    return emitError() << "'interleave' must not be negative, got "
                       << interleave;
  if (verifyWord(emitError, catalog::kGateUpOrders, gateUpOrder,
                 "gate_up_order"))
    return failure();
  if (interleave == 0 && gateUpOrder != "gate_first")
    return emitError() << "'gate_up_order' is of weights with 'interleave'";
  if (verifyOneOf(emitError, {"rows", "fragment"}, order, "order"))
    return failure();
  if ((order == "fragment") == tile.empty())
    return emitError()
           << "'tile' must be given with order fragment, and only then";
  if (verifyPositiveList(emitError, "tile", tile, 2))
    return failure();
  if (stored.empty() && !padded.empty())
    return emitError() << "'padded' is of weights that are not packed, which "
                          "say how they are 'stored'";
  if (verifyPositiveList(emitError, "padded", padded,
                         padded.size() == 1 ? 1 : 2))
    return failure();
  if (stored.empty())
    return success();
  if (verifyWord(emitError, catalog::kStoredLayouts, stored, "stored"))
    return failure();
  if (interleave != 0 || order != "rows")
    return emitError() << "'stored' is of weights that are not packed, which "
                          "have no other field but 'padded'";
  return success();
}

LogicalResult LayoutAttr::verifyEncoding(ArrayRef<int64_t> shape, Type,
                                         EmitError emitError) const {
  // Scales and zero points with one value per row are [experts, rows].
  const bool inRows = getInterleave() == 0 && getTile().empty();
  const bool inFragments = getOrder() == "fragment" && getTile()[1] == 1;
  if (shape.size() != 3 && !(shape.size() == 2 && (inRows || inFragments)))
    return emitError() << "a packed weight must be [experts, rows, columns], "
                          "got "
                       << shape.size() << " dimensions";
  if (getInterleave() > 0 && shape[1] % (2 * getInterleave()) != 0)
    return emitError() << "interleave = " << getInterleave()
                       << " needs rows in multiples of " << 2 * getInterleave()
                       << ", got " << shape[1];
  for (auto [extent, tile] : llvm::zip(shape.drop_front(), getTile()))
    if (extent % tile != 0)
      return emitError() << "rows and columns must be multiples of tile, got "
                         << extent << " for " << tile;
  const ArrayRef<int64_t> padded = getPadded(), extents = shape.drop_front();
  if (!padded.empty() && padded.size() != extents.size())
    return emitError() << "'padded' must have " << extents.size()
                       << " extents, got " << padded.size();
  for (auto [extent, more] : llvm::zip(extents, padded))
    if (more < extent)
      return emitError() << "'padded' must be at least rows and columns, got "
                         << more << " for " << extent;
  return success();
}

//===----------------------------------------------------------------------===//
// RegionAttr
//===----------------------------------------------------------------------===//

LogicalResult RegionAttr::verify(EmitError emitError, StringRef value,
                                 StringRef offset, StringRef bytes,
                                 int64_t first, int64_t last) {
  if (value.empty() || offset.empty() || bytes.empty())
    return emitError() << "a region needs a value's name, 'offset' and "
                          "'bytes'";
  if (first < 0 || last < first)
    return emitError() << "region of '" << value
                       << "' must have 0 <= first <= last, got " << first
                       << " and " << last;
  return success();
}

//===----------------------------------------------------------------------===//
// CandidateAttr, ChoiceAttr and ReportAttr
//===----------------------------------------------------------------------===//

LogicalResult CandidateAttr::verify(EmitError emitError, StringRef, StringRef,
                                    StringRef realization, StringRef,
                                    StringRef code, StringRef reason) {
  const bool wellFormed = llvm::all_of(code, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
  if (!wellFormed)
    return emitError() << "'code' must be lower-case words joined by '_', got '"
                       << code << "'";
  if (code.empty() != reason.empty())
    return emitError() << "a refused candidate has a 'code' and a 'reason', "
                          "got '"
                       << code << "' and '" << reason << "'";
  return success(realization.empty() ||
                 !verifyWord(emitError, catalog::kRealizations, realization,
                             "realization"));
}

LogicalResult ChoiceAttr::verify(EmitError emitError, StringRef option,
                                 StringRef value, StringRef) {
  if (verifyOneOf(emitError, {"backend", "engine", "exclude", "allow"}, option,
                  "choice"))
    return failure();
  if (value.empty())
    return emitError() << "choice '" << option << "' needs a value";
  return success();
}

CandidateAttr ReportAttr::getRefusalOf(StringRef engine) const {
  for (CandidateAttr candidate : getCandidates())
    if (candidate.isRefused() && candidate.getBackend() == getBackend() &&
        candidate.getEngine() == engine &&
        isSameLayer(candidate.getRealization(), getRealization()))
      return candidate;
  return {};
}

ChoiceAttr ReportAttr::getChoice(StringRef option) const {
  for (ChoiceAttr choice : getChoices())
    if (choice.getOption() == option)
      return choice;
  return {};
}

LogicalResult ReportAttr::verify(EmitError emitError, StringRef backend,
                                 StringRef engine, ArrayRef<CandidateAttr>,
                                 StringRef, StringRef realization,
                                 ArrayRef<ChoiceAttr>) {
  if (verifyWord(emitError, catalog::kRealizations, realization,
                 "realization") ||
      verifyWord(emitError, catalog::kBackends, backend, "backend") ||
      verifyWord(emitError, catalog::kEngines, engine, "engine"))
    return failure();
  const catalog::Backend &row = *catalog::find(catalog::kBackends, backend);
  if (!row.engines.contains(engine))
    return emitError() << "backend '" << backend << "' does not use engine '"
                       << engine << "'; it uses: " << row.engines.text();
  return success();
}

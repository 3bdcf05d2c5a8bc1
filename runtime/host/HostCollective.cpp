//===- HostCollective.cpp - collectives of the host device ----------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the memory of a collective's values and hands it to the communicator.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/HostDeviceImpl.h"

#include <algorithm>

using namespace moec;
using namespace moec::host;

Result<void> HostDevice::Impl::communicate(const Collective &collective,
                                           const Symbols &symbols,
                                           const Binding &binding) const {
  std::vector<comm::Part> parts;
  for (size_t i = 0; i < collective.operands.size(); ++i) {
    comm::Part part;
    const std::pair<const std::string &, bool> sides[] = {
        {collective.operands[i], false}, {collective.results[i], true}};
    for (const auto &[name, isResult] : sides) {
      const int64_t index = valueIndex(manifest, target, name);
      if (index < 0 || !binding.values[index].address)
        return invalidArgument("value '{}': expected memory for a collective, "
                               "got none",
                               name);
      auto *memory = reinterpret_cast<void *>(binding.values[index].address);
      if (isResult)
        part.to = memory;
      else
        part.from = memory;
      const Value &value = valueAt(manifest, target, index);
      part.elementType = value.elementTypes.front();
      // The smaller side is that of one rank.
      const int64_t elements = TRY(elementCount(value, symbols));
      part.elements = isResult ? std::min(part.elements, elements) : elements;
    }
    parts.push_back(part);
  }
  comm::Call call;
  call.kind = collective.kind;
  call.ranks = collective.ranks, call.stride = collective.stride;
  call.parts = parts;
  return options.communicator->perform(call);
}

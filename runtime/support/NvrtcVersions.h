//===- NvrtcVersions.h - the NVRTC version that an arch needs ---*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The first NVRTC release that supports each arch. This was measured by
// compiling a kernel with releases 12.0, 12.6, 12.8, 12.9, 13.0, 13.3, 13.4 and
// 13.5.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_SUPPORT_NVRTCVERSIONS_H
#define MOEC_RUNTIME_SUPPORT_NVRTCVERSIONS_H

#include <charconv>
#include <compare>
#include <optional>
#include <string>
#include <string_view>

namespace moec {

struct NvrtcVersion {
  int major = 0, minor = 0;
  constexpr auto operator<=>(const NvrtcVersion &) const = default;
};

/// The oldest release that compiles the kernels of every scheme for sm_80 and
/// sm_90a. Release 12.0 fails for kernels with 4-bit weights.
inline constexpr NvrtcVersion kOldestNvrtc = {12, 6};

/// The first release that supports family-specific archs, such as "sm_100f".
inline constexpr NvrtcVersion kFirstNvrtcOfFamilies = {12, 9};

struct FirstNvrtc {
  int arch; ///< 107 for sm_107, sm_107a and sm_107f
  NvrtcVersion version;
};

/// The archs that kOldestNvrtc does not support.
inline constexpr FirstNvrtc kFirstNvrtc[] = {
    {88, {13, 0}},  {100, {12, 8}}, {103, {12, 9}}, {107, {13, 4}},
    {110, {13, 0}}, {120, {12, 8}}, {121, {12, 9}},
};

/// Returns the first release that supports an arch, such as "sm_90a", or
/// nullopt if the name is not an arch.
inline std::optional<NvrtcVersion> firstNvrtcOf(std::string_view arch) {
  constexpr std::string_view kPrefix = "sm_";
  if (!arch.starts_with(kPrefix))
    return std::nullopt;
  int number = 0;
  const char *begin = arch.data() + kPrefix.size(),
             *end = arch.data() + arch.size();
  const auto [rest, error] = std::from_chars(begin, end, number);
  if (error != std::errc())
    return std::nullopt;
  NvrtcVersion first = kOldestNvrtc;
  for (const FirstNvrtc &row : kFirstNvrtc)
    if (row.arch == number)
      first = row.version;
  if (rest != end && *rest == 'f' && first < kFirstNvrtcOfFamilies)
    first = kFirstNvrtcOfFamilies;
  return first;
}

/// Returns a release as text, such as "13.4".
inline std::string nvrtcText(NvrtcVersion version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

/// Returns the first release that supports an arch as text, such as "13.4".
inline std::string nvrtcText(std::string_view arch) {
  return nvrtcText(firstNvrtcOf(arch).value_or(kOldestNvrtc));
}

} // namespace moec

#endif // MOEC_RUNTIME_SUPPORT_NVRTCVERSIONS_H

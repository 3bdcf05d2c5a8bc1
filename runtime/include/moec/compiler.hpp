//===- compiler.hpp - the compiler's C interface in C++ -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Header only, over compiler.h, for programs that link libmoec.so.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_COMPILER_HPP
#define MOEC_COMPILER_HPP

#include <moec/compiler.h>
#include <moec/moec.hpp>

#include <string>

namespace moec::api {

/// A package in memory, out of the text of a config.
inline Expected<Files> compileConfig(const std::string &text,
                                     const std::string &optionsJson = "") {
  moec_package_files *files = nullptr;
  moec_status status =
      moec_compile_config(text.c_str(), optionsJson.c_str(), &files);
  return Files::wrap(status, files);
}
/// What compileConfig() would decide and why, as JSON.
inline Expected<std::string>
explainConfig(const std::string &text, const std::string &optionsJson = "") {
  moec_text *report = nullptr;
  moec_status status =
      moec_explain_config(text.c_str(), optionsJson.c_str(), &report);
  return detail::take(status, report);
}
/// Measures schedules of a config; the report as JSON.
inline Expected<std::string> tuneConfig(const std::string &text,
                                        const std::string &optionsJson) {
  moec_text *report = nullptr;
  moec_status status =
      moec_tune_config(text.c_str(), optionsJson.c_str(), &report);
  return detail::take(status, report);
}
/// The report as a page of HTML; `benchJson` may be null.
inline Expected<std::string> explainHtml(const std::string &reportJson,
                                         const char *benchJson = nullptr) {
  moec_text *page = nullptr;
  moec_status status = moec_explain_html(reportJson.c_str(), benchJson, &page);
  return detail::take(status, page);
}
/// The words that a config may use, as JSON.
inline Expected<std::string> catalog() {
  moec_text *text = nullptr;
  moec_status status = moec_catalog_json(&text);
  return detail::take(status, text);
}
/// The families of models whose config.json can be compiled, as JSON.
inline Expected<std::string> families() {
  moec_text *text = nullptr;
  moec_status status = moec_families_json(&text);
  return detail::take(status, text);
}

} // namespace moec::api

#endif // MOEC_COMPILER_HPP

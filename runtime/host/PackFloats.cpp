//===- PackFloats.cpp - the stages that quantize weights on the host ------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Stages for weights that the checkpoint stores as floats. pack_scales computes
// one parameter per group: the second scale, the scale or the zero point.
// pack_codes computes the codes (quantized values) in the order that kernels
// read.
//
//===----------------------------------------------------------------------===//

#include "runtime/host/KernelRun.h"
#include "runtime/host/Parallel.h"
#include "runtime/host/WeightRules.h"
#include "runtime/support/Progress.h"

using namespace moec;
using namespace moec::host;

namespace {

/// The quantization groups of one expert's weight. No group contains rows of
/// both gate and up.
struct Groups {
  int64_t rows = 0, columns = 0, parts = 1;
  bool alternate = false; ///< stored rows of gate and up alternate
  int64_t groupRows = 0, groupColumns = 0;
  int64_t firstExpert = 0, experts = 0;
  WeightFormat format;
  WeightRules rules; ///< rules of `format`

  int64_t partRows() const { return rows / parts; }
  int64_t down() const { return (partRows() + groupRows - 1) / groupRows; }
  int64_t across() const { return (columns + groupColumns - 1) / groupColumns; }
  int64_t count() const { return parts * down() * across(); }

  int64_t partOf(int64_t stored) const {
    return alternate ? stored % parts : stored / partRows();
  }
  /// Returns the index of the group that contains stored element (`stored`,
  /// `column`). Groups of a single row are in stored row order.
  int64_t numberOf(int64_t stored, int64_t column) const {
    int64_t place = stored;
    if (groupRows != 1)
      place = partOf(stored) * down() +
              (alternate ? stored / parts : stored % partRows()) / groupRows;
    return place * across() + column / groupColumns;
  }

  static Result<Groups> of(KernelRun &run);
};

Result<Groups> Groups::of(KernelRun &run) {
  Groups made;
  made.rows = run.integer("rows");
  made.columns = run.integer("columns");
  made.parts = run.integer("parts");
  made.alternate = run.flag("alternate");
  made.groupRows = run.integer("group_rows");
  made.groupColumns = run.integer("group_columns");
  made.firstExpert = TRY(run.size("first_expert"));
  made.experts = TRY(run.size("experts"));
  const bool right = made.rows >= 1 && made.columns >= 1 && made.parts >= 1 &&
                     made.rows % made.parts == 0 && made.groupRows != 0 &&
                     made.groupColumns != 0 && made.firstExpert >= 0 &&
                     made.experts >= 1;
  if (!right)
    return run.fail(
        "expected rows of whole parts, columns, groups and experts, got {} x "
        "{} in {} parts and groups of {} x {}, {} experts from expert {}",
        made.rows, made.columns, made.parts, made.groupRows, made.groupColumns,
        made.experts, made.firstExpert);
  made.format.groupRows = made.groupRows;
  made.format.groupColumns = made.groupColumns;
  made.format.element = run.word("element");
  made.format.scale = run.word("scale_type");
  made.format.second = made.format.scale == "f8E4M3FN";
  made.format.zeroPoint = run.flag("zero_points");
  made.format.scaleRule = run.word("scale_rule");
  Result<WeightRules> rules = WeightRules::of(made.format);
  if (!rules)
    return run.fail("{}", rules.error().message);
  made.rules = *rules;
  if (made.groupRows == -1)
    made.groupRows = made.partRows();
  if (made.groupColumns == -1)
    made.groupColumns = made.columns;
  return made;
}

/// Returns the values of stored row `row`.
std::vector<float> floatsOfRow(Storage storage, const std::byte *weights,
                               const Groups &groups, int64_t row) {
  std::vector<float> values(static_cast<size_t>(groups.columns));
  loadFloats(storage, weights + row * storageBytes(storage, groups.columns),
             groups.columns, values.data());
  return values;
}

/// Returns the second scale of an expert's part (gate or up), or 1 if the
/// weight has no second scales.
float secondScaleOf(const View &second, const Groups &groups, int64_t expert,
                    int64_t part) {
  return second ? second.number(0, expert * groups.parts + part) : 1;
}

Result<View> numbersOfGroups(KernelRun &run, const char *name,
                             const Groups &groups, int64_t perExpert) {
  return run.operand(name, 1,
                     (groups.firstExpert + groups.experts) * perExpert);
}

} // namespace

Result<void> stages::pack_scales(KernelRun &run) {
  const Groups groups = TRY(Groups::of(run));
  const std::string number = run.word("number");
  const WeightRules &rules = groups.rules;
  const bool isSecond = number == "second_scale";
  const bool isZero = number == "zero_point";
  if (!isSecond && !isZero && number != "scale")
    return run.fail(
        "expected number second_scale, scale or zero_point, got '{}'", number);
  const int64_t perExpert = groups.count();
  const int64_t all = groups.firstExpert + groups.experts;
  View source = TRY(run.operand("source", all * groups.rows, groups.columns));
  View destination = TRY(run.result("destination", 1, all * perExpert));
  View scale = TRY(numbersOfGroups(run, "scale", groups, perExpert));
  View second = TRY(numbersOfGroups(run, "second_scale", groups, groups.parts));
  const Storage made = isSecond ? Storage::F32
                       : isZero ? Storage::I8
                                : rules.scales();
  const bool keptAsFloat =
      !isSecond && !isZero && rules.keptAsFloat(destination.storage);
  if (!source || !destination ||
      (destination.storage != made && !keptAsFloat) || bool(scale) != isZero ||
      (isZero && !rules.keeps(scale.storage)))
    return run.fail("expected memory for source and destination, of the "
                    "number's type, and scales beside zero points");
  Progress progress("host device: experts' scales computed", groups.experts);
  parallelFor(run.threads, groups.experts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t e = begin; e < end; ++e, progress.advance()) {
      const int64_t expert = groups.firstExpert + e;
      std::vector<WeightRange> ranges(static_cast<size_t>(perExpert));
      std::vector<int64_t> parts(static_cast<size_t>(perExpert));
      for (int64_t r = 0; r < groups.rows; ++r) {
        const std::vector<float> values = floatsOfRow(
            source.storage, source.data, groups, expert * groups.rows + r);
        for (int64_t c = 0; c < groups.columns; ++c) {
          const auto at = static_cast<size_t>(groups.numberOf(r, c));
          ranges[at].take(values[static_cast<size_t>(c)]);
          parts[at] = groups.partOf(r);
        }
      }
      for (int64_t i = 0; i < perExpert; ++i) {
        const WeightRange range = ranges[static_cast<size_t>(i)];
        const int64_t at = expert * perExpert + i;
        std::byte *to = destination.at(0, at);
        const float outer = secondScaleOf(second, groups, expert,
                                          parts[static_cast<size_t>(i)]);
        if (isSecond) {
          const float value = rules.secondScale(range.largest());
          storeFloats(Storage::F32, &value, 1, to);
        } else if (isZero) {
          *to = static_cast<std::byte>(rules.zeroPoint(
              range, rules.factor(scale.storage, scale.at(0, at), outer)));
        } else if (keptAsFloat) {
          std::byte power = {};
          rules.storeScale(range, outer, &power);
          const float value = rules.factor(&power, outer);
          storeFloats(Storage::F32, &value, 1, to);
        } else {
          rules.storeScale(range, outer, to);
        }
      }
    }
  });
  return {};
}

Result<void> stages::pack_codes(KernelRun &run) {
  const Groups groups = TRY(Groups::of(run));
  const WeightRules &rules = groups.rules;
  RowOrder order = TRY(RowOrder::of(run, groups.rows));
  const Storage stored = storageOf(run.word("stored"));
  const int64_t all = groups.firstExpert + groups.experts;
  const int64_t perExpert = groups.count();
  View source = TRY(run.operand("source", 1,
                                groups.experts * groups.rows *
                                    storageBytes(stored, groups.columns)));
  View destination =
      TRY(run.result("destination", all * groups.rows, groups.columns));
  View scale = TRY(numbersOfGroups(run, "scale", groups, perExpert));
  View second = TRY(numbersOfGroups(run, "second_scale", groups, groups.parts));
  View zero = TRY(numbersOfGroups(run, "zero_point", groups, perExpert));
  const int64_t bits = storageBits(rules.codes());
  if (!source || !destination || !scale || source.storage != Storage::I8 ||
      !rules.keeps(scale.storage) || destination.storage != rules.codes() ||
      bool(zero) != groups.format.zeroPoint ||
      bool(second) != groups.format.second || groups.columns * bits % 8 != 0)
    return run.fail(
        "expected memory for a source of i8, scales as the format has them and "
        "a destination of its codes, rows of which are whole bytes");
  Progress progress("host device: rows of weights quantized",
                    groups.experts * groups.rows);
  parallelFor(
      run.threads, groups.experts * groups.rows, 16,
      [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i, progress.advance()) {
          const int64_t inStep = i / groups.rows;
          const int64_t expert = groups.firstExpert + inStep;
          const int64_t row = order.at(i % groups.rows).stored;
          const std::vector<float> values = floatsOfRow(
              stored, source.data, groups, inStep * groups.rows + row);
          const float outer =
              secondScaleOf(second, groups, expert, groups.partOf(row));
          std::byte *to =
              destination.at(expert * groups.rows + i % groups.rows);
          std::fill_n(to, groups.columns * bits / 8, std::byte{0});
          for (int64_t c = 0; c < groups.columns; ++c) {
            const int64_t at = expert * perExpert + groups.numberOf(row, c);
            const auto middle =
                zero ? static_cast<uint8_t>(*zero.at(0, at)) : uint8_t{0};
            const unsigned code =
                unsigned{rules.code(
                    values[static_cast<size_t>(c)],
                    rules.factor(scale.storage, scale.at(0, at), outer),
                    middle)}
                << c * bits % 8;
            to[c * bits / 8] |= static_cast<std::byte>(code & 0xff);
            if (code > 0xff)
              to[c * bits / 8 + 1] |= static_cast<std::byte>(code >> 8);
          }
        }
      });
  return {};
}

//===- Conversion.cpp - conversions between types -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cvt: integers of all sizes, f32, halves, and the formats of 8 and 4 bits.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/core/Numbers.h"
#include "test/emulator/instructions/Elementwise.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace moec::emulator;

//===----------------------------------------------------------------------===//
// Integers
//===----------------------------------------------------------------------===//

static uint64_t extend(uint64_t value, unsigned bytes, bool isSigned) {
  const unsigned unused = 64 - bytes * 8;
  value <<= unused;
  return isSigned ? uint64_t(int64_t(value) >> unused) : value >> unused;
}

/// From option[0] bytes to `bytes`; registers may be wider than the types, and
/// get the sign or zeros.
static Step convertInteger(Warp &warp, const Inst &inst, uint32_t lanes) {
  forLanes(lanes, [&](unsigned lane) {
    const uint64_t value =
        extend(warp.value(inst.src[0], lane), inst.option[0], inst.isSigned);
    warp.set(inst.dst[0], lane, extend(value, inst.bytes, inst.flag));
  });
  return Step::Next;
}

/// Saturates to the range of the destination.
static Step convertSaturated(Warp &warp, const Inst &inst, uint32_t lanes) {
  __extension__ using Wide = __int128;
  const unsigned bits = inst.bytes * 8;
  const Wide most = (Wide(1) << (inst.flag ? bits - 1 : bits)) - 1;
  const Wide least = inst.flag ? -most - 1 : 0;
  forLanes(lanes, [&](unsigned lane) {
    const uint64_t bitsOf =
        extend(warp.value(inst.src[0], lane), inst.option[0], inst.isSigned);
    const Wide value = inst.isSigned ? Wide(int64_t(bitsOf)) : Wide(bitsOf);
    warp.set(inst.dst[0], lane, uint64_t(std::clamp(value, least, most)));
  });
  return Step::Next;
}

static void noteIntegers(Inst &inst, const NameParts &name) {
  const std::string_view to = name.parts[name.parts.size() - 2],
                         from = name.last();
  inst.bytes = bytesOfType(to);
  inst.option[0] = bytesOfType(from);
  inst.flag = to[0] == 's';
  inst.isSigned = from[0] == 's';
  if (inst.dst[0].bytes < inst.bytes || inst.src[0].bytes < inst.option[0])
    throw PtxError("a register is smaller than its type");
}

//===----------------------------------------------------------------------===//
// f32 to integers and to integral values
//===----------------------------------------------------------------------===//

// The roundings of their names: i to nearest even, z to zero, m down, p up.
static double nearest(double a) { return std::nearbyint(a); }
static double toZero(double a) { return std::trunc(a); }
static double down(double a) { return std::floor(a); }
static double up(double a) { return std::ceil(a); }

/// NaN becomes 0; values beyond the range the nearest one in it.
template <typename D, typename S, double (*Round)(double)>
static D toInteger(S value) {
  const double rounded = std::isnan(value) ? 0 : Round(double(value));
  if (rounded <= double(std::numeric_limits<D>::min()))
    return std::numeric_limits<D>::min();
  // The largest of 64 bits is no double: what is not below 2^63 is beyond.
  if (rounded >= -2.0 * double(std::numeric_limits<D>::min() / 2) &&
      std::is_signed_v<D>)
    return std::numeric_limits<D>::max();
  if (rounded >= std::ldexp(1.0, std::numeric_limits<D>::digits))
    return std::numeric_limits<D>::max();
  return D(rounded);
}

template <double (*Round)(double)> static float toIntegral(float value) {
  return std::copysign(float(Round(value)), value);
}
template <typename D, typename S> static D cast(S value) { return D(value); }
static float saturate(float a) { return a > 0 ? std::min(a, 1.0f) : 0.0f; }

template <double (*Round)(double)>
static void addRoundings(Rows &rows, const char *name) {
  const std::string begin = std::string("cvt.") + name + ".";
  rows.insert(
      rows.end(),
      {{begin + "s32.f32", "d4 s4", map<toInteger<int32_t, float, Round>>},
       {begin + "u32.f32", "d4 s4", map<toInteger<uint32_t, float, Round>>},
       {begin + "s64.f32", "d8 s4", map<toInteger<int64_t, float, Round>>},
       {begin + "u64.f32", "d8 s4", map<toInteger<uint64_t, float, Round>>},
       {begin + "s32.f64", "d4 s8", map<toInteger<int32_t, double, Round>>},
       {begin + "f32.f32", "d4 s4", map<toIntegral<Round>>}});
}

//===----------------------------------------------------------------------===//
// Halves
//===----------------------------------------------------------------------===//

/// Rounded to zero: the half whose value is not larger.
template <uint16_t (*Encode)(float), float (*Decode)(uint16_t)>
static uint16_t encodeToZero(float value) {
  const uint16_t nearest = Encode(value);
  if (std::isnan(value) || std::fabs(Decode(nearest)) <= std::fabs(value))
    return nearest;
  return uint16_t(nearest - 1);
}

template <uint16_t (*Encode)(float)>
static uint32_t encodePair(float high, float low) {
  return uint32_t(Encode(high)) << 16 | Encode(low);
}
template <uint16_t (*Encode)(float)>
static uint32_t encodePairRelu(float high, float low) {
  auto relu = [](float a) { return std::isnan(a) ? a : a > 0 ? a : 0.0f; };
  return encodePair<Encode>(relu(high), relu(low));
}

//===----------------------------------------------------------------------===//
// 8 bits and less
//===----------------------------------------------------------------------===//

template <const SmallFormat &Format>
static uint16_t encodeTwo(float high, float low) {
  return uint16_t(encodeSmall(high, Format) << 8 | encodeSmall(low, Format));
}
template <const SmallFormat &Format> static uint16_t encodeHalves(uint32_t a) {
  return encodeTwo<Format>(decodeHalf(uint16_t(a >> 16)),
                           decodeHalf(uint16_t(a)));
}
template <const SmallFormat &Format> static uint32_t decodeTwo(uint16_t a) {
  const SmallTable &values = valuesOf(Format);
  return uint32_t(encodeHalf(values[a >> 8])) << 16 |
         encodeHalf(values[a & 255]);
}
static uint16_t encodeScales(float high, float low) {
  return uint16_t(encodeE8M0RoundUp(high) << 8 | encodeE8M0RoundUp(low));
}
static uint32_t decodeScales(uint16_t a) {
  return uint32_t(encodeBfloat(decodeE8M0(uint8_t(a >> 8)))) << 16 |
         encodeBfloat(decodeE8M0(uint8_t(a)));
}

/// Two codes of e2m1 in a byte, the second source in the lower half.
static Step encodeE2M1(Warp &warp, const Inst &inst, uint32_t lanes) {
  forLanes(lanes, [&](unsigned lane) {
    const float high = warp.lanesOf<float>(inst.src[0])[lane],
                low = warp.lanesOf<float>(inst.src[1])[lane];
    warp.set(inst.dst[0], lane,
             uint64_t(encodeSmall(high, kE2M1) << 4 | encodeSmall(low, kE2M1)));
  });
  return Step::Next;
}
static Step decodeE2M1(Warp &warp, const Inst &inst, uint32_t lanes) {
  const SmallTable &values = valuesOf(kE2M1);
  forLanes(lanes, [&](unsigned lane) {
    const uint64_t codes = warp.value(inst.src[0], lane);
    warp.set(inst.dst[0], lane,
             uint64_t(encodeHalf(values[codes >> 4 & 15])) << 16 |
                 encodeHalf(values[codes & 15]));
  });
  return Step::Next;
}

void moec::emulator::addConversionRows(Rows &rows) {
  const char *integers = "s8|u8|s16|u16|s32|u32|s64|u64";
  const std::string pair = std::string(integers) + "." + integers;
  rows.push_back({"cvt." + pair, "d* s*", convertInteger, noteIntegers});
  rows.push_back({"cvt.sat." + pair, "d* s*", convertSaturated, noteIntegers});
  addRoundings<nearest>(rows, "rni");
  addRoundings<toZero>(rows, "rzi");
  addRoundings<down>(rows, "rmi");
  addRoundings<up>(rows, "rpi");
  constexpr auto bfloat = encodeBfloat;
  constexpr auto half = encodeHalf;
  rows.insert(
      rows.end(),
      {{"cvt.rn.f32.s16", "d4 s2", map<cast<float, int16_t>>},
       {"cvt.rn.f32.u16", "d4 s2", map<cast<float, uint16_t>>},
       {"cvt.rn.f32.s32", "d4 s4", map<cast<float, int32_t>>},
       {"cvt.rn.f32.u32", "d4 s4", map<cast<float, uint32_t>>},
       {"cvt.rn.f32.s64", "d4 s8", map<cast<float, int64_t>>},
       {"cvt.rn.f32.u64", "d4 s8", map<cast<float, uint64_t>>},
       {"cvt.rn.f64.s32", "d8 s4", map<cast<double, int32_t>>},
       {"cvt.rn.f64.u32", "d8 s4", map<cast<double, uint32_t>>},
       {"cvt.rn.f64.s64", "d8 s8", map<cast<double, int64_t>>},
       {"cvt.f64.f32", "d8 s4", map<cast<double, float>>},
       {"cvt.rn.f32.f64", "d4 s8", map<cast<float, double>>},
       {"cvt.sat.f32.f32", "d4 s4", map<saturate>},
       {"cvt.f32.f16", "d4 s2", map<decodeHalf>},
       {"cvt.f32.bf16", "d4 s2", map<decodeBfloat>},
       {"cvt.rn.f16.f32", "d2 s4", map<encodeHalf>},
       {"cvt.rz.f16.f32", "d2 s4", map<encodeToZero<half, decodeHalf>>},
       {"cvt.rn.bf16.f32", "d2 s4", map<encodeBfloat>},
       {"cvt.rz.bf16.f32", "d2 s4", map<encodeToZero<bfloat, decodeBfloat>>},
       {"cvt.rn.f16x2.f32", "d4 s4 s4", map<encodePair<half>>},
       {"cvt.rn.bf16x2.f32", "d4 s4 s4", map<encodePair<bfloat>>},
       {"cvt.rn.relu.f16x2.f32", "d4 s4 s4", map<encodePairRelu<half>>},
       {"cvt.rn.relu.bf16x2.f32", "d4 s4 s4", map<encodePairRelu<bfloat>>},
       {"cvt.rn.satfinite.e4m3x2.f32", "d2 s4 s4", map<encodeTwo<kE4M3>>},
       {"cvt.rn.satfinite.e5m2x2.f32", "d2 s4 s4", map<encodeTwo<kE5M2>>},
       {"cvt.rn.satfinite.e2m3x2.f32", "d2 s4 s4", map<encodeTwo<kE2M3>>},
       {"cvt.rn.satfinite.e3m2x2.f32", "d2 s4 s4", map<encodeTwo<kE3M2>>},
       {"cvt.rn.satfinite.e4m3x2.f16x2", "d2 s4", map<encodeHalves<kE4M3>>},
       {"cvt.rn.satfinite.e5m2x2.f16x2", "d2 s4", map<encodeHalves<kE5M2>>},
       {"cvt.rn.f16x2.e4m3x2", "d4 s2", map<decodeTwo<kE4M3>>},
       {"cvt.rn.f16x2.e5m2x2", "d4 s2", map<decodeTwo<kE5M2>>},
       {"cvt.rn.f16x2.e2m3x2", "d4 s2", map<decodeTwo<kE2M3>>},
       {"cvt.rn.f16x2.e3m2x2", "d4 s2", map<decodeTwo<kE3M2>>},
       {"cvt.rp.satfinite.ue8m0x2.f32", "d2 s4 s4", map<encodeScales>},
       {"cvt.rn.bf16x2.ue8m0x2", "d4 s2", map<decodeScales>},
       {"cvt.rn.satfinite.e2m1x2.f32", "d1 s4 s4", encodeE2M1},
       {"cvt.rn.f16x2.e2m1x2", "d4 s1", decodeE2M1}});
}

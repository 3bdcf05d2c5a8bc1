//===- ptx_wgmma.cuh - the warpgroup MMA instruction ------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// wgmma of sm_90a with f32 accumulators: 64 rows by any multiple of 16 columns
// up to 256. The second operand is in shared memory; the first one is in shared
// memory or in registers. The register lists of the instruction text are built
// 8 at a time.
//
//===----------------------------------------------------------------------===//

#pragma once

#include "moe/core/types.cuh"

namespace moe::ptx {

/// Fences registers (wgmma.fence): wgmma may then access registers that other
/// instructions wrote.
__device__ __forceinline__ void beginMultiply() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

/// Commits the MMAs that were issued since the last commit as one group.
__device__ __forceinline__ void commitMultiplies() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

/// Waits until at most kPending of the latest groups are pending.
template <int kPending> __device__ __forceinline__ void waitForMultiplies() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

/// Keeps the compiler from moving reads of the register before this place.
__device__ __forceinline__ void keep(float &sum) {
  asm volatile("" : "+f"(sum)::"memory");
}

/// Returns the shared-memory descriptor of an operand with rows of 128 bytes
/// along k (128-byte swizzle: chunk index XOR row % 8; 8 rows are 1024 bytes).
/// The address must be a multiple of 1024.
__device__ __forceinline__ unsigned long long
matrixDescriptor(unsigned address) {
  return (unsigned long long)((address & 0x3ffff) >> 4) | 1ull << 16 |
         64ull << 32 | 1ull << 62;
}

/// Returns the descriptor advanced by `bytes` along k. The lower word holds the
/// address, and the addition of a multiple of 16 below 1024 causes no carry.
__device__ __forceinline__ unsigned long long
alongK(unsigned long long descriptor, int bytes) {
  return (descriptor & ~0xffffffffull) |
         (unsigned(descriptor) + unsigned(bytes / 16));
}

// MOE_NAMES_n and MOE_SUMS_n: the first n registers as instruction text and as
// operands.
#define MOE_NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define MOE_SUMS_8                                                             \
  "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]), "+f"(sums[4]),   \
      "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7])
#define MOE_NAMES_16 MOE_NAMES_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define MOE_SUMS_16                                                            \
  MOE_SUMS_8, "+f"(sums[8]), "+f"(sums[9]), "+f"(sums[10]), "+f"(sums[11]),    \
      "+f"(sums[12]), "+f"(sums[13]), "+f"(sums[14]), "+f"(sums[15])
#define MOE_NAMES_24 MOE_NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define MOE_SUMS_24                                                            \
  MOE_SUMS_16, "+f"(sums[16]), "+f"(sums[17]), "+f"(sums[18]), "+f"(sums[19]), \
      "+f"(sums[20]), "+f"(sums[21]), "+f"(sums[22]), "+f"(sums[23])
#define MOE_NAMES_32 MOE_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define MOE_SUMS_32                                                            \
  MOE_SUMS_24, "+f"(sums[24]), "+f"(sums[25]), "+f"(sums[26]), "+f"(sums[27]), \
      "+f"(sums[28]), "+f"(sums[29]), "+f"(sums[30]), "+f"(sums[31])
#define MOE_NAMES_40 MOE_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define MOE_SUMS_40                                                            \
  MOE_SUMS_32, "+f"(sums[32]), "+f"(sums[33]), "+f"(sums[34]), "+f"(sums[35]), \
      "+f"(sums[36]), "+f"(sums[37]), "+f"(sums[38]), "+f"(sums[39])
#define MOE_NAMES_48 MOE_NAMES_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define MOE_SUMS_48                                                            \
  MOE_SUMS_40, "+f"(sums[40]), "+f"(sums[41]), "+f"(sums[42]), "+f"(sums[43]), \
      "+f"(sums[44]), "+f"(sums[45]), "+f"(sums[46]), "+f"(sums[47])
#define MOE_NAMES_56 MOE_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define MOE_SUMS_56                                                            \
  MOE_SUMS_48, "+f"(sums[48]), "+f"(sums[49]), "+f"(sums[50]), "+f"(sums[51]), \
      "+f"(sums[52]), "+f"(sums[53]), "+f"(sums[54]), "+f"(sums[55])
#define MOE_NAMES_64 MOE_NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define MOE_SUMS_64                                                            \
  MOE_SUMS_56, "+f"(sums[56]), "+f"(sums[57]), "+f"(sums[58]), "+f"(sums[59]), \
      "+f"(sums[60]), "+f"(sums[61]), "+f"(sums[62]), "+f"(sums[63])
#define MOE_NAMES_72 MOE_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define MOE_SUMS_72                                                            \
  MOE_SUMS_64, "+f"(sums[64]), "+f"(sums[65]), "+f"(sums[66]), "+f"(sums[67]), \
      "+f"(sums[68]), "+f"(sums[69]), "+f"(sums[70]), "+f"(sums[71])
#define MOE_NAMES_80 MOE_NAMES_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
#define MOE_SUMS_80                                                            \
  MOE_SUMS_72, "+f"(sums[72]), "+f"(sums[73]), "+f"(sums[74]), "+f"(sums[75]), \
      "+f"(sums[76]), "+f"(sums[77]), "+f"(sums[78]), "+f"(sums[79])
#define MOE_NAMES_88 MOE_NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87"
#define MOE_SUMS_88                                                            \
  MOE_SUMS_80, "+f"(sums[80]), "+f"(sums[81]), "+f"(sums[82]), "+f"(sums[83]), \
      "+f"(sums[84]), "+f"(sums[85]), "+f"(sums[86]), "+f"(sums[87])
#define MOE_NAMES_96 MOE_NAMES_88 ", %88, %89, %90, %91, %92, %93, %94, %95"
#define MOE_SUMS_96                                                            \
  MOE_SUMS_88, "+f"(sums[88]), "+f"(sums[89]), "+f"(sums[90]), "+f"(sums[91]), \
      "+f"(sums[92]), "+f"(sums[93]), "+f"(sums[94]), "+f"(sums[95])
#define MOE_NAMES_104                                                          \
  MOE_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define MOE_SUMS_104                                                           \
  MOE_SUMS_96, "+f"(sums[96]), "+f"(sums[97]), "+f"(sums[98]), "+f"(sums[99]), \
      "+f"(sums[100]), "+f"(sums[101]), "+f"(sums[102]), "+f"(sums[103])
#define MOE_NAMES_112                                                          \
  MOE_NAMES_104 ", %104, %105, %106, %107, %108, %109, %110, %111"
#define MOE_SUMS_112                                                           \
  MOE_SUMS_104, "+f"(sums[104]), "+f"(sums[105]), "+f"(sums[106]),             \
      "+f"(sums[107]), "+f"(sums[108]), "+f"(sums[109]), "+f"(sums[110]),      \
      "+f"(sums[111])
#define MOE_NAMES_120                                                          \
  MOE_NAMES_112 ", %112, %113, %114, %115, %116, %117, %118, %119"
#define MOE_SUMS_120                                                           \
  MOE_SUMS_112, "+f"(sums[112]), "+f"(sums[113]), "+f"(sums[114]),             \
      "+f"(sums[115]), "+f"(sums[116]), "+f"(sums[117]), "+f"(sums[118]),      \
      "+f"(sums[119])
#define MOE_NAMES_128                                                          \
  MOE_NAMES_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define MOE_SUMS_128                                                           \
  MOE_SUMS_120, "+f"(sums[120]), "+f"(sums[121]), "+f"(sums[122]),             \
      "+f"(sums[123]), "+f"(sums[124]), "+f"(sums[125]), "+f"(sums[126]),      \
      "+f"(sums[127])

#define MOE_WGMMA(columns, registers, lhs, rhs, shape, adds, flags)            \
  if constexpr (kColumns == columns)                                           \
  asm volatile("{.reg .pred p;\n\tsetp.eq.u32 p, 1, " adds ";\n\t"             \
               "wgmma.mma_async.sync.aligned.m64n" #columns shape              \
               " {" MOE_NAMES_##registers "}, " lhs ", " rhs ", p, 1, 1" flags \
                                          ";}"                                 \
               : MOE_SUMS_##registers                                          \
               : "l"(lhsMatrix), "l"(rhsMatrix))

#define MOE_WGMMA_SHAPES(shape, adds, flags)                                   \
  MOE_WGMMA(16, 8, "%8", "%9", shape, adds, flags);                            \
  MOE_WGMMA(32, 16, "%16", "%17", shape, adds, flags);                         \
  MOE_WGMMA(48, 24, "%24", "%25", shape, adds, flags);                         \
  MOE_WGMMA(64, 32, "%32", "%33", shape, adds, flags);                         \
  MOE_WGMMA(80, 40, "%40", "%41", shape, adds, flags);                         \
  MOE_WGMMA(96, 48, "%48", "%49", shape, adds, flags);                         \
  MOE_WGMMA(112, 56, "%56", "%57", shape, adds, flags);                        \
  MOE_WGMMA(128, 64, "%64", "%65", shape, adds, flags);                        \
  MOE_WGMMA(144, 72, "%72", "%73", shape, adds, flags);                        \
  MOE_WGMMA(160, 80, "%80", "%81", shape, adds, flags);                        \
  MOE_WGMMA(176, 88, "%88", "%89", shape, adds, flags);                        \
  MOE_WGMMA(192, 96, "%96", "%97", shape, adds, flags);                        \
  MOE_WGMMA(208, 104, "%104", "%105", shape, adds, flags);                     \
  MOE_WGMMA(224, 112, "%112", "%113", shape, adds, flags);                     \
  MOE_WGMMA(240, 120, "%120", "%121", shape, adds, flags);                     \
  MOE_WGMMA(256, 128, "%128", "%129", shape, adds, flags);

/// Issues sums += lhs (64 x 32 bytes along k) * rhs (kColumns x 32 bytes)^T by
/// a warpgroup. Without kAdds, which only e4m3 supports, the product replaces
/// the accumulators `sums`. commitMultiplies commits the MMA.
template <class Element, int kColumns, bool kAdds = true>
__device__ __forceinline__ void multiplyShared(float (&sums)[kColumns / 2],
                                               unsigned long long lhsMatrix,
                                               unsigned long long rhsMatrix) {
  static_assert(kColumns % 16 == 0 && kColumns >= 16 && kColumns <= 256,
                "wgmma is instantiated for multiples of 16 columns up to 256");
  static_assert(kAdds || kSame<Element, e4m3>);
  if constexpr (kSame<Element, bf16>) {
    MOE_WGMMA_SHAPES("k16.f32.bf16.bf16", "1", ", 0, 0")
  } else if constexpr (kSame<Element, f16>) {
    MOE_WGMMA_SHAPES("k16.f32.f16.f16", "1", ", 0, 0")
  } else {
    static_assert(kSame<Element, e4m3>);
    if constexpr (kAdds) {
      MOE_WGMMA_SHAPES("k32.f32.e4m3.e4m3", "1", "")
    } else {
      MOE_WGMMA_SHAPES("k32.f32.e4m3.e4m3", "0", "")
    }
  }
}

#define MOE_WGMMA_REGISTERS(columns, registers, lhs, rhs, shape, adds, flags)  \
  if constexpr (kColumns == columns)                                           \
  asm volatile("{.reg .pred p;\n\tsetp.eq.u32 p, 1, " adds ";\n\t"             \
               "wgmma.mma_async.sync.aligned.m64n" #columns shape              \
               " {" MOE_NAMES_##registers "}, {" lhs "}, " rhs                 \
                                          ", p, 1, 1" flags ";}"               \
               : MOE_SUMS_##registers                                          \
               : "r"(lhsRegisters[0]), "r"(lhsRegisters[1]),                   \
                 "r"(lhsRegisters[2]), "r"(lhsRegisters[3]), "l"(rhsMatrix))

#define MOE_WGMMA_REGISTER_SHAPES(shape, adds, flags)                          \
  MOE_WGMMA_REGISTERS(16, 8, "%8, %9, %10, %11", "%12", shape, adds, flags);   \
  MOE_WGMMA_REGISTERS(32, 16, "%16, %17, %18, %19", "%20", shape, adds,        \
                      flags);                                                  \
  MOE_WGMMA_REGISTERS(48, 24, "%24, %25, %26, %27", "%28", shape, adds,        \
                      flags);                                                  \
  MOE_WGMMA_REGISTERS(64, 32, "%32, %33, %34, %35", "%36", shape, adds,        \
                      flags);                                                  \
  MOE_WGMMA_REGISTERS(80, 40, "%40, %41, %42, %43", "%44", shape, adds,        \
                      flags);                                                  \
  MOE_WGMMA_REGISTERS(96, 48, "%48, %49, %50, %51", "%52", shape, adds,        \
                      flags);                                                  \
  MOE_WGMMA_REGISTERS(112, 56, "%56, %57, %58, %59", "%60", shape, adds,       \
                      flags);                                                  \
  MOE_WGMMA_REGISTERS(128, 64, "%64, %65, %66, %67", "%68", shape, adds,       \
                      flags);                                                  \
  MOE_WGMMA_REGISTERS(144, 72, "%72, %73, %74, %75", "%76", shape, adds,       \
                      flags);                                                  \
  MOE_WGMMA_REGISTERS(160, 80, "%80, %81, %82, %83", "%84", shape, adds,       \
                      flags);                                                  \
  MOE_WGMMA_REGISTERS(176, 88, "%88, %89, %90, %91", "%92", shape, adds,       \
                      flags);                                                  \
  MOE_WGMMA_REGISTERS(192, 96, "%96, %97, %98, %99", "%100", shape, adds,      \
                      flags);                                                  \
  MOE_WGMMA_REGISTERS(208, 104, "%104, %105, %106, %107", "%108", shape, adds, \
                      flags);                                                  \
  MOE_WGMMA_REGISTERS(224, 112, "%112, %113, %114, %115", "%116", shape, adds, \
                      flags);                                                  \
  MOE_WGMMA_REGISTERS(240, 120, "%120, %121, %122, %123", "%124", shape, adds, \
                      flags);                                                  \
  MOE_WGMMA_REGISTERS(256, 128, "%128, %129, %130, %131", "%132", shape, adds, \
                      flags);

/// Like multiplyShared, with lhs (64 x 32 bytes along k) in registers: each
/// warp holds its 16 rows in the registers of its threads.
template <class Element, int kColumns, bool kAdds = true>
__device__ __forceinline__ void
multiplyRegisters(float (&sums)[kColumns / 2],
                  const unsigned (&lhsRegisters)[4],
                  unsigned long long rhsMatrix) {
  static_assert(kColumns % 16 == 0 && kColumns >= 16 && kColumns <= 256,
                "wgmma is instantiated for multiples of 16 columns up to 256");
  static_assert(kAdds || kSame<Element, e4m3>);
  if constexpr (kSame<Element, bf16>) {
    MOE_WGMMA_REGISTER_SHAPES("k16.f32.bf16.bf16", "1", ", 0")
  } else if constexpr (kSame<Element, f16>) {
    MOE_WGMMA_REGISTER_SHAPES("k16.f32.f16.f16", "1", ", 0")
  } else {
    static_assert(kSame<Element, e4m3>);
    if constexpr (kAdds) {
      MOE_WGMMA_REGISTER_SHAPES("k32.f32.e4m3.e4m3", "1", "")
    } else {
      MOE_WGMMA_REGISTER_SHAPES("k32.f32.e4m3.e4m3", "0", "")
    }
  }
}

#undef MOE_WGMMA_REGISTER_SHAPES
#undef MOE_WGMMA_REGISTERS
#undef MOE_WGMMA_SHAPES
#undef MOE_WGMMA
#undef MOE_NAMES_8
#undef MOE_SUMS_8
#undef MOE_NAMES_16
#undef MOE_SUMS_16
#undef MOE_NAMES_24
#undef MOE_SUMS_24
#undef MOE_NAMES_32
#undef MOE_SUMS_32
#undef MOE_NAMES_40
#undef MOE_SUMS_40
#undef MOE_NAMES_48
#undef MOE_SUMS_48
#undef MOE_NAMES_56
#undef MOE_SUMS_56
#undef MOE_NAMES_64
#undef MOE_SUMS_64
#undef MOE_NAMES_72
#undef MOE_SUMS_72
#undef MOE_NAMES_80
#undef MOE_SUMS_80
#undef MOE_NAMES_88
#undef MOE_SUMS_88
#undef MOE_NAMES_96
#undef MOE_SUMS_96
#undef MOE_NAMES_104
#undef MOE_SUMS_104
#undef MOE_NAMES_112
#undef MOE_SUMS_112
#undef MOE_NAMES_120
#undef MOE_SUMS_120
#undef MOE_NAMES_128
#undef MOE_SUMS_128

} // namespace moe::ptx

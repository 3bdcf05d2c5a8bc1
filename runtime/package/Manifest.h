//===- Manifest.h - the content of a package --------------------*- C++ -*-===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The only definition of the contract between compiler and runtime; both
// compile this header. A package is a folder with `manifest.json`, the
// generated `.cu` files, the headers that they include, and one `.cubin` for
// each kernel and arch that was compiled ahead of time.
// docs/reference/manifest.md explains every field with an example.
// ManifestJson.cpp reads and writes the manifest: an unknown, missing or
// mistyped field is an error with its JSON path. Validate.cpp checks the
// content.
//
//===----------------------------------------------------------------------===//

#ifndef MOEC_RUNTIME_PACKAGE_MANIFEST_H
#define MOEC_RUNTIME_PACKAGE_MANIFEST_H

#include "runtime/package/Expression.h"
#include "runtime/support/Json.h"
#include "runtime/support/Result.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace moec {

/// The format version. It is incremented by every change that an older reader
/// would misinterpret.
inline constexpr int kManifestVersion = 8;

/// Maximum size of a manifest file, far above any real manifest. Larger files
/// are rejected.
inline constexpr size_t kMaxManifestBytes = size_t(16) << 20;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

enum class ValueRole {
  Input,          ///< passed at every run
  OptionalInput,  ///< may be absent in a run; kernels then receive a null
                  ///< pointer
  Output,         ///< every element is written by every run
  OptionalOutput, ///< written if the caller passes memory for it
  StoredWeight,   ///< in the checkpoint's layout; passed once, when a layer is
                  ///< created
  PackedWeight,   ///< computed by `pack` from stored weights, once per layer
  Workspace,      ///< content is undefined before and after a run
  State, ///< zeroed once per context; every run leaves all of its elements zero
  Window, ///< other ranks write to it; zeroed once per context
};

/// A tensor. Inputs, outputs and stored weights are in Manifest::values; values
/// that depend on the target are in Target::values. Names are unique across
/// both lists.
struct Value {
  std::string name;
  ValueRole role = ValueRole::Input;
  /// Names from runtime/package/ElementTypes.h. The first is the default. If
  /// there are several, the caller may choose one at each run (for example i32
  /// or i64 for ids).
  std::vector<std::string> elementTypes;
  std::vector<Expression> shape; ///< logical extents, outermost first
  /// Strides in elements, outermost first; empty: contiguous.
  std::vector<Expression> strides;
  /// The caller may pass a larger outermost stride than the contiguous stride.
  bool callerRowStride = false;
  int64_t alignment = 16; ///< alignment of the pointer in bytes; a power of two
  /// Name of a value that may share this value's memory, or "". For a packed
  /// weight, this is the stored weight that it may replace in place.
  std::string mayAlias;
};

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

/// One field of the argument block, which is the only parameter of a kernel.
struct ArgumentField {
  enum class Kind {
    Pointer,   ///< 8 bytes: the device address of `value`
    TensorMap, ///< 128 bytes, aligned to 64: the encoded tensor map `tensorMap`
    Size,      ///< the value of `expression`, of type `elementType`
    RowStride, ///< i64: the outermost stride of `value` in elements
    ElementType, ///< i32: code of the element type of `value` at this run
    FirstExpert, ///< i32: the first expert of a pack step
    Peers,  ///< 8 bytes: the device address of the table of window addresses
    Status, ///< 8 bytes: the device address of the ExchangeBlock
  };
  std::string name; ///< name of the C++ field; stages use this name
  int64_t offset = 0;
  Kind kind = Kind::Pointer;
  std::string value;
  std::string tensorMap;
  Expression expression;
  std::string elementType; ///< type of a Size field: i32, i64 or f32
  int64_t bytes() const; ///< size in bytes, derived from kind and element type
};

struct ArgumentBlock {
  int64_t bytes = 0;
  int64_t alignment = 8; ///< in bytes; 64 if the block has a tensor map
  std::vector<ArgumentField> fields; ///< ascending offsets, no overlap
};

/// A stage of the layer that a kernel executes. Without a GPU, the host device
/// executes the stages. `operands` and `results` map operand names of the
/// stage's op to argument fields of the kernel. "%name" instead of a field is a
/// value that exists only inside the kernel. docs/reference/manifest-stages.md
/// lists the kinds of stages with their operands, results and attributes.
struct Stage {
  std::string op; ///< route, count, permute, quantize, grouped_matmul, ...
  std::map<std::string, std::string> operands;
  std::map<std::string, std::string> results;
  BoxedJson attributes; ///< a JSON object
};

struct Kernel {
  std::string name;   ///< unique in the target
  std::string source; ///< path in the package, such as "sm_90a/gate_up.cu"
  std::string entry;  ///< extern "C" name, unique in the package
  /// Names as in #include directives; indirect includes are listed, too.
  std::vector<std::string> headers;
  std::vector<std::string> options; ///< NVRTC options, including the arch
  std::string cubin; ///< path in the package; "" if not compiled ahead of time
  int64_t threads = 0;
  int64_t sharedBytes = 0; ///< dynamic shared memory in bytes
  std::array<int64_t, 3> cluster = {1, 1, 1};
  /// Minimum resident CTAs per SM, as in __launch_bounds__.
  int64_t minCtasPerSm = 1;
  bool cooperative = false; ///< the kernel has a grid-wide barrier
  /// The kernel uses programmatic dependent launch: it may start before its
  /// predecessor in the stream has finished. It executes griddepcontrol.wait
  /// before it accesses anything that the predecessor wrote.
  bool programmatic = false;
  ArgumentBlock arguments;
  std::vector<Stage> stages;
};

/// A TMA descriptor, with the parameters of cuTensorMapEncodeTiled.
struct TensorMap {
  std::string name;
  std::string value;
  std::string elementType;
  std::vector<Expression> extents; ///< innermost first, 1 to 5 dimensions
  /// Strides in bytes of dimensions 1 and up, multiples of 16.
  std::vector<Expression> strides;
  std::vector<int64_t> box; ///< innermost first, each 1 to 256
  std::vector<int64_t> elementStrides;
  std::string interleave;      ///< none, 16b, 32b
  std::string swizzle;         ///< none, 32b, 64b, 128b
  std::string l2Promotion;     ///< none, 64b, 128b, 256b
  std::string outOfBoundsFill; ///< zeros, nan
};

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

struct Grid {
  /// Number of CTAs in x, y, z of a grid that is not persistent.
  std::array<Expression, 3> ctas = {Expression(1), Expression(1),
                                    Expression(1)};
  /// If true, the grid is persistent and has min(tiles, SM count * ctasPerSm)
  /// CTAs in x.
  bool persistent = false;
  Expression tiles;
  int64_t ctasPerSm = 0;
};

/// A collective operation between the ranks of a group. Each rank has its own
/// values. A group has `ranks` members; consecutive members' ranks differ by
/// `stride`.
struct Collective {
  enum class Kind {
    AllGather,     ///< concatenates the operands of all ranks in rank order
    ReduceScatter, ///< sums over all ranks; each rank receives the rows of its
                   ///< own tokens
    AllReduce,     ///< sums over all ranks; every rank receives the whole sum
  };
  Kind kind = Kind::AllGather;
  int64_t ranks = 1;
  int64_t stride = 1;
  std::vector<std::string> operands;
  std::vector<std::string> results; ///< one for each operand
};

/// A launch of a kernel. If `collective` is set, a collective is performed
/// instead of a launch.
struct Launch {
  std::string kernel;
  Grid grid;
  std::optional<Collective> collective;
};

/// The location of a value in the workspace during the launches that need it.
struct Region {
  std::string value;
  Expression offset; ///< a multiple of the value's alignment
  Expression bytes;
  /// Index into Variant::launches. lastLaunch is inclusive.
  int64_t firstLaunch = 0;
  int64_t lastLaunch = 0;
};

/// The launches that are used for a range of token counts.
struct Variant {
  std::string name;
  int64_t minTokens = 1;
  int64_t maxTokens = 1; ///< inclusive
  /// Minimum SM count. Devices with fewer SMs do not use this variant; 0: no
  /// minimum.
  int64_t minSms = 0;
  std::vector<Launch> launches;
  /// Two regions may overlap in memory only if no launch needs both.
  std::vector<Region> regions;
  Expression workspaceBytes;
};

/// Packing: the computation of a packed weight from stored weights, a few
/// experts per step. The expressions of the launches may use the symbol
/// `experts`, the number of experts in the step.
struct Pack {
  std::string result; ///< a packed weight
  /// Stored weights. All except the first may also be packed weights, if an
  /// earlier entry computes them.
  std::vector<std::string> from;
  bool inPlace = false; ///< `result` may use the memory of from[0]
  int64_t expertsPerStep = 1;
  int64_t totalExperts = 0;
  /// Name of the workspace value that describes the scratch memory, or "".
  std::string scratch;
  /// Bytes of scratch memory for one step. Packing in place needs no other
  /// extra memory.
  Expression scratchBytes;
  std::vector<Launch> launches;
};

struct StateRegion {
  std::string value;
  int64_t offset = 0;
};

/// The location of a value in every rank's window. It is sized for max_tokens.
struct WindowRegion {
  std::string value;
  int64_t offset = 0; ///< a multiple of kWindowAlignment
};

inline constexpr int64_t kWindowAlignment = 256;
/// Name of the first value of every window, through which ranks synchronize.
/// exchangeWordsOf() returns its number of 64-bit words; moe::ExchangeWords
/// defines their meaning.
inline constexpr std::string_view kExchangeWords = "exchange_words";
constexpr int64_t exchangeWordsOf(int64_t ranks) { return 3 * ranks + 8; }

/// The code for one arch.
struct Target {
  std::string arch; ///< name in the architecture table, such as "sm_90a"
  std::string gpu; ///< the GPU for which token ranges and schedules were chosen
  /// Binary compatibility, from the architecture table: "exact", "major" (sm_80
  /// code runs on 8.x with x >= 0) or "family" (sm_100f code runs on its
  /// family).
  std::string compatibility;
  int64_t computeMajor = 0, computeMinor = 0;
  std::vector<Value> values;
  std::vector<Kernel> kernels;
  std::vector<TensorMap> tensorMaps;
  /// A run uses the first variant that supports the token count and the device.
  /// The variants without a minimum SM count have ascending ranges that cover 1
  /// to maxTokens without gaps.
  std::vector<Variant> variants;
  std::vector<Pack> pack;
  int64_t stateBytes = 0;
  std::vector<StateRegion> stateRegions;
  /// Number of ranks whose kernels write to each other's windows; these are
  /// ranks 0 to windowRanks - 1. 1: there are no windows.
  int64_t windowRanks = 1;
  int64_t windowBytes = 0; ///< size of each rank's window
  std::vector<WindowRegion> windowRegions;
  /// The compiler's report: chosen candidate, rejected candidates,
  /// degradations, schedules.
  BoxedJson report;
};

/// The properties that differ between the ranks of a package.
struct RankFacts {
  int64_t rank = 0; ///< flattened, (dp_rank * pcp + pcp_rank) * tp + tp_rank
  int64_t localBegin = 0; ///< the rank's first expert
  /// The rank's first column of the intermediate size.
  int64_t intermediateBegin = 0;
  bool addW2Bias = true; ///< false: another rank adds the w2 bias
  /// False: another rank adds the output of the zero experts (experts that
  /// return their input).
  bool addZeroExperts = true;
  /// The rank's first intermediate column of shared experts that have their own
  /// weights.
  int64_t sharedIntermediateBegin = 0;
};

struct Manifest {
  std::string name; ///< name of the layer
  /// "moec 0.1.0"; informational, not part of any cache key.
  std::string compiler;
  /// The ranks for which the package was compiled, ascending. A run uses the
  /// properties of one rank (runtime/package/Ranks.h).
  std::vector<RankFacts> ranks = {RankFacts()};
  /// The complete description of the layer, with every name expanded into its
  /// definition. The reference implementation reads it. After ofRank() has
  /// narrowed the manifest to one rank, it contains the properties of that
  /// rank.
  BoxedJson layer;
  int64_t maxTokens = 0;
  /// Number of ranks whose tokens together are counted by `tokens`. Each rank
  /// passes the same number of tokens, `own_tokens`, to a run.
  int64_t tokenRanks = 1;
  /// Upper bound for the number of rows of all experts, as an expression of
  /// `tokens`.
  Expression rows;
  std::vector<Value> values;
  /// Each run passes exactly one of these groups of optional inputs.
  std::vector<std::vector<std::string>> oneOf;
  std::vector<Target> targets;
  /// Lowercase hex SHA-256 of every other file of the package, by path.
  std::map<std::string, std::string> files;
};

/// The content of manifest.json if the ranks have shares of different sizes. A
/// share is the part of a layer that one set of ranks computes. Each share has
/// its own package in a subfolder.
struct ShareIndex {
  struct Share {
    std::string folder;         ///< "share0"; relative to the package
    std::vector<int64_t> ranks; ///< ascending; each rank has one share
  };
  std::string name; ///< name of the layer
  std::vector<Share> shares;
  /// Like Manifest::files, for all subfolders, including their manifests.
  std::map<std::string, std::string> files;
};

using ManifestFile = std::variant<Manifest, ShareIndex>;

/// Return JSON text with keys in a fixed order and a final newline.
std::string toJson(const Manifest &manifest);
std::string toJson(const ShareIndex &index);
/// Parses a manifest or share index and checks its format; every error names
/// the JSON path. For a share index, the content is also checked.
Result<ManifestFile> manifestFileFromJson(std::string_view text);
/// Parses a manifest. A share index is an error.
Result<Manifest> fromJson(std::string_view text);
/// Checks that the manifest is consistent (see Validate.cpp).
Result<void> validate(const Manifest &manifest);

const Value *findValue(const Manifest &manifest, const Target &target,
                       std::string_view name);
const Kernel *findKernel(const Target &target, std::string_view name);

} // namespace moec

#endif // MOEC_RUNTIME_PACKAGE_MANIFEST_H

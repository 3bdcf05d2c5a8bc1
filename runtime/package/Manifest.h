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

/// The format version. It is raised with every change that an older reader
/// would misinterpret.
inline constexpr int kManifestVersion = 7;

/// Maximum size of a manifest file, far above any real one; larger files are
/// refused.
inline constexpr size_t kMaxManifestBytes = size_t(16) << 20;

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

enum class ValueRole {
  Input,          ///< passed at every run
  OptionalInput,  ///< may be absent at a run; kernels then see a null pointer
  Output,         ///< every element is written by every run
  OptionalOutput, ///< written if the caller passes it
  StoredWeight,   ///< in the checkpoint's layout; passed once per layer
  PackedWeight,   ///< computed by `pack` from stored weights, once per layer
  Workspace,      ///< content is undefined before and after a run
  State,          ///< zeroed once per context; every run leaves it zero
  Window,         ///< other ranks write to it; zeroed once per context
};

/// A tensor. Inputs, outputs and stored weights are in Manifest::values; values
/// that depend on the target are in Target::values. Names are unique across
/// both lists.
struct Value {
  std::string name;
  ValueRole role = ValueRole::Input;
  /// Names from ElementTypes.h. The first is the default. There is more than
  /// one only if the caller may choose at each run (ids: i32 or i64; logits).
  std::vector<std::string> elementTypes;
  std::vector<Expression> shape; ///< logical extents, outermost first
  /// Strides in elements, outermost first; empty: contiguous.
  std::vector<Expression> strides;
  /// The caller may pass another outermost stride (>= the contiguous one).
  bool callerRowStride = false;
  int64_t alignment = 16; ///< alignment of the pointer in bytes; a power of two
  /// Name of a value that may share this value's memory, or "": a packed weight
  /// may replace its stored weight in place.
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
    Size,      ///< `expression`, of type `elementType`
    RowStride, ///< i64: the outermost stride of `value` in elements
    ElementType, ///< i32: code of the element type of `value` at this run
    FirstExpert, ///< i32: the first expert of a pack step
    Peers,  ///< 8 bytes: the device address of the table of window addresses
    Status, ///< 8 bytes: the device address of the ExchangeBlock
  };
  std::string name; ///< name of the C++ field; stages refer to it
  int64_t offset = 0;
  Kind kind = Kind::Pointer;
  std::string value;
  std::string tensorMap;
  Expression expression;
  std::string elementType; ///< type of a Size field: i32, i64 or f32
  int64_t bytes() const;   ///< size, from kind and element type
};

struct ArgumentBlock {
  int64_t bytes = 0;
  int64_t alignment = 8;             ///< 64 if the block has a tensor map
  std::vector<ArgumentField> fields; ///< ascending offsets, no overlap
};

/// A stage of the layer that a kernel performs. The host device performs the
/// stages without a GPU. `operands` and `results` map the operand names of the
/// op to argument fields of the kernel, or to "%name", a value inside this
/// kernel. docs/reference/manifest-stages.md lists the kinds of stages with
/// their operands, results and attributes.
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
  /// Names as #included, including indirect includes.
  std::vector<std::string> headers;
  std::vector<std::string> options; ///< NVRTC options, including the arch
  std::string cubin; ///< path in the package; "" if not compiled ahead of time
  int64_t threads = 0;
  int64_t sharedBytes = 0; ///< dynamic shared memory
  std::array<int64_t, 3> cluster = {1, 1, 1};
  int64_t minCtasPerSm = 1; ///< as in __launch_bounds__
  bool cooperative = false; ///< the kernel has a grid-wide barrier
  /// Programmatic dependent launch: the kernel may start before its predecessor
  /// in the stream has finished. It executes griddepcontrol.wait before it
  /// accesses anything that the predecessor wrote.
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
  /// The grid is persistent: min(tiles, SM count * ctasPerSm) CTAs in x.
  bool persistent = false;
  Expression tiles;
  int64_t ctasPerSm = 0;
};

/// A collective operation of the ranks of a group, each of which has its own
/// values. A group has `ranks` members, whose ranks are `stride` apart.
struct Collective {
  enum class Kind {
    AllGather,     ///< concatenates the operands of all ranks in rank order
    ReduceScatter, ///< the sum over all ranks; each rank receives the rows of
                   ///< its tokens
    AllReduce,     ///< the sum over all ranks
  };
  Kind kind = Kind::AllGather;
  int64_t ranks = 1;
  int64_t stride = 1;
  std::vector<std::string> operands;
  std::vector<std::string> results; ///< one for each operand
};

/// A launch of a kernel, or a collective instead of one.
struct Launch {
  std::string kernel;
  Grid grid;
  std::optional<Collective> collective;
};

/// The location of a workspace value during the launches that need it.
struct Region {
  std::string value;
  Expression offset; ///< a multiple of the value's alignment
  Expression bytes;
  /// Index into Variant::launches. lastLaunch is inclusive.
  int64_t firstLaunch = 0;
  int64_t lastLaunch = 0;
};

/// The launches that serve a range of token counts.
struct Variant {
  std::string name;
  int64_t minTokens = 1;
  int64_t maxTokens = 1; ///< inclusive
  /// Devices with fewer SMs skip this variant; 0: no device skips it.
  int64_t minSms = 0;
  std::vector<Launch> launches;
  /// Regions may overlap in memory only if not at the same time.
  std::vector<Region> regions;
  Expression workspaceBytes;
};

/// The computation of a packed weight from stored weights, a few experts at a
/// time. The expressions of the launches may use `experts`, the number of
/// experts in the step.
struct Pack {
  std::string result; ///< a packed weight
  /// Stored weights. Elements after the first may also be packed weights of
  /// earlier entries.
  std::vector<std::string> from;
  bool inPlace = false; ///< `result` may use the memory of from[0]
  int64_t expertsPerStep = 1;
  int64_t totalExperts = 0;
  /// The workspace value that is the scratch memory, or "".
  std::string scratch;
  /// Size for one step. Packing in place needs no other extra memory.
  Expression scratchBytes;
  std::vector<Launch> launches;
};

struct StateRegion {
  std::string value;
  int64_t offset = 0;
};

/// The location of a value in the window of every rank, sized for max_tokens.
struct WindowRegion {
  std::string value;
  int64_t offset = 0; ///< a multiple of kWindowAlignment
};

inline constexpr int64_t kWindowAlignment = 256;
/// Name of the first value of every window. exchangeWordsOf() is the number of
/// its words, which moe::ExchangeWords defines.
inline constexpr std::string_view kExchangeWords = "exchange_words";
constexpr int64_t exchangeWordsOf(int64_t ranks) { return 3 * ranks + 8; }

/// The code for one arch.
struct Target {
  std::string arch; ///< name in the architecture table, such as "sm_90a"
  std::string gpu; ///< the GPU for which token ranges and schedules were chosen
  /// Binary compatibility, from the architecture table: "exact", "major" (sm_80
  /// serves 8.x with x >= 0) or "family" (sm_100f serves its family).
  std::string compatibility;
  int64_t computeMajor = 0, computeMinor = 0;
  std::vector<Value> values;
  std::vector<Kernel> kernels;
  std::vector<TensorMap> tensorMaps;
  /// A run uses the first variant that serves it on the device. The variants
  /// that serve all devices have ascending ranges that cover 1 to maxTokens
  /// without gaps.
  std::vector<Variant> variants;
  std::vector<Pack> pack;
  int64_t stateBytes = 0;
  std::vector<StateRegion> stateRegions;
  /// Number of ranks whose kernels write to each other's windows, ranks 0 to
  /// windowRanks - 1. 1: there are no windows.
  int64_t windowRanks = 1;
  int64_t windowBytes = 0; ///< bytes of each rank's window
  std::vector<WindowRegion> windowRegions;
  /// The resolver's report: chosen candidate, refused candidates, degradations,
  /// schedules.
  BoxedJson report;
};

/// The properties that differ between the ranks of a package.
struct RankFacts {
  int64_t rank = 0; ///< flattened, (dp_rank * pcp + pcp_rank) * tp + tp_rank
  int64_t localBegin = 0;        ///< its first expert
  int64_t intermediateBegin = 0; ///< its first column of the intermediate size
  bool addW2Bias = true;         ///< false: another rank adds the w2 bias
  /// False: another rank adds the zero experts' outputs.
  bool addZeroExperts = true;
  /// The first intermediate column of shared experts with their own weights.
  int64_t sharedIntermediateBegin = 0;
};

struct Manifest {
  std::string name; ///< name of the layer
  /// "moec 0.1.0"; informational, not part of any cache key.
  std::string compiler;
  /// Ranks that the package serves, ascending. A run belongs to one rank
  /// (Ranks.h).
  std::vector<RankFacts> ranks = {RankFacts()};
  /// The layer with every name expanded into structure, which the reference
  /// reads. After ofRank() has narrowed the manifest, it contains the
  /// properties of that rank.
  BoxedJson layer;
  int64_t maxTokens = 0;
  /// Number of ranks whose tokens make up `tokens`. Each of them passes the
  /// same number of tokens, `own_tokens`, to a run.
  int64_t tokenRanks = 1;
  /// Upper bound of the rows of all experts, in terms of tokens.
  Expression rows;
  std::vector<Value> values;
  /// Each run passes exactly one of these groups of optional inputs.
  std::vector<std::vector<std::string>> oneOf;
  std::vector<Target> targets;
  /// Lowercase hex SHA-256 of every other file of the package, by path.
  std::map<std::string, std::string> files;
};

/// The content of manifest.json if ranks have shares of different sizes (a
/// share is the part of a layer that one set of ranks computes). A subfolder
/// holds the package of each share.
struct ShareIndex {
  struct Share {
    std::string folder;         ///< "share0", a folder in the package
    std::vector<int64_t> ranks; ///< ascending; each rank has one share
  };
  std::string name; ///< name of the layer
  std::vector<Share> shares;
  /// Like Manifest::files, for all subfolders, including their manifests.
  std::map<std::string, std::string> files;
};

using ManifestFile = std::variant<Manifest, ShareIndex>;

/// Returns the manifest as JSON text with keys in a fixed order and a final
/// newline.
std::string toJson(const Manifest &manifest);
std::string toJson(const ShareIndex &index);
/// Parses a manifest or share index and checks its format; every error names
/// the JSON path. The content of an index is checked, too.
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

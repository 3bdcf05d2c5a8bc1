//===- Doctor.cpp - moec doctor: checks of this machine -------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Uses the same functions that compile, load and run kernels. The findings
// therefore describe the driver, NVRTC, NCCL and cache that moec uses.
//
//===----------------------------------------------------------------------===//

#include "compiler/command/Commands.h"

#include "compiler/Input.h"
#include "compiler/TargetNames.h"
#include "compiler/command/Programs.h"
#include "runtime/comm/NcclLibrary.h"
#include "runtime/cuda/CudaDriver.h"
#include "runtime/cuda/DeviceInfo.h"
#include "runtime/jit/CacheEntries.h"
#include "runtime/jit/CompileWorker.h"
#include "runtime/jit/Nvrtc.h"
#include "runtime/support/Bytes.h"
#include "runtime/support/Clock.h"
#include "runtime/support/Env.h"
#include "runtime/support/Files.h"
#include "runtime/support/Json.h"
#include "runtime/support/Terminal.h"

#include "mlir/IR/BuiltinOps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

using namespace moec;
using namespace moec::compiler;
using nlohmann::ordered_json;

namespace {

enum class State {
  Ok,
  Note, ///< something is missing that only some users need
  Fault ///< moec cannot compile or store kernels here
};

struct Finding {
  std::string name;
  State state = State::Ok;
  std::string text = {};
  std::string advice = {}; ///< recommended action; "" if none is needed
  ordered_json facts = ordered_json::object();
};

std::string_view stateName(State state) {
  switch (state) {
  case State::Ok:
    return "ok";
  case State::Note:
    return "note";
  case State::Fault:
    return "fault";
  }
  return "";
}

Finding systemFinding() {
  utsname system = {};
  ::uname(&system);
  Finding made{"system"};
  made.facts = {
      {"kernel", fmt::format("{} {}", system.sysname, system.release)},
      {"machine", system.machine},
      {"glibc", ::gnu_get_libc_version()},
      {"cores", usableThreads()}};
  made.text = fmt::format("{} {} {}, glibc {}, {} cores", system.sysname,
                          system.release, system.machine,
                          ::gnu_get_libc_version(), usableThreads());
  return made;
}

/// Returns the findings about the driver and the GPUs. Sets `driverVersion`,
/// such as 13000. Leaves it unchanged if there is no driver.
std::vector<Finding> gpuFindings(int &driverVersion) {
  Finding driver{"driver"};
  const auto opened = runtime::cuda::CudaDriver::get();
  if (!opened) {
    driver.state = State::Note;
    driver.text = opened.error().message;
    driver.advice = "to run on a GPU, install NVIDIA's driver (in a container: "
                    "start it with --gpus=all); without one, packages compile "
                    "here and run on the host device";
    driver.facts = {{"cuda", nullptr}};
    return {driver};
  }
  (*opened)->driverGetVersion(&driverVersion);
  const std::string version =
      fmt::format("{}.{}", driverVersion / 1000, driverVersion % 1000 / 10);
  driver.text = fmt::format("CUDA {}", version);
  driver.facts = {{"cuda", version}};
  std::vector<Finding> all = {driver};
  int count = 0;
  (*opened)->deviceGetCount(&count);
  if (count == 0)
    all.push_back({"gpu", State::Note, "the driver sees none",
                   "check nvidia-smi and CUDA_VISIBLE_DEVICES"});
  for (int i = 0; i < count; ++i) {
    runtime::cuda::CUdevice device = 0;
    if ((*opened)->deviceGet(&device, i) != runtime::cuda::kSuccess)
      continue;
    const auto info = runtime::readDeviceInfo(**opened, device);
    Finding gpu{"gpu"};
    if (!info) {
      gpu.state = State::Note;
      gpu.text = info.error().message;
      all.push_back(gpu);
      continue;
    }
    const catalog::Architecture *row =
        bestArchOf(static_cast<int>(info->computeMajor),
                   static_cast<int>(info->computeMinor));
    const std::string arch = row ? std::string(row->name) : "";
    gpu.text = fmt::format("{}, {}, {} SMs, {}", info->name,
                           arch.empty() ? "no arch" : arch, info->smCount,
                           bytesText(static_cast<uint64_t>(info->memoryBytes)));
    gpu.facts = {{"name", info->name},
                 {"arch", arch.empty() ? ordered_json() : ordered_json(arch)},
                 {"sms", info->smCount},
                 {"bytes", info->memoryBytes}};
    if (arch.empty()) {
      gpu.state = State::Note;
      gpu.advice = fmt::format("compute capability {}.{} is none of moec list "
                               "archs: packages do not run on it",
                               info->computeMajor, info->computeMinor);
    }
    all.push_back(gpu);
  }
  return all;
}

Finding nvrtcFinding(int driverVersion) {
  Finding made{"nvrtc"};
  made.advice = "pip install nvidia-cuda-nvrtc (NVRTC 13, for drivers of CUDA "
                "13) or nvidia-cuda-nvrtc-cu12, or set MOEC_NVRTC_PATH to a "
                "libnvrtc.so.N; packages with cubins need none";
  const auto fault = [&](const Error &error) {
    made.state = State::Fault;
    made.text = error.message;
    made.facts = {{"path", nullptr}};
    return made;
  };
  const auto location = runtime::findNvrtc();
  if (!location)
    return fault(location.error());
  const auto opened = runtime::Nvrtc::open(*location);
  if (!opened)
    return fault(opened.error());
  const NvrtcVersion version = (*opened)->version();
  const std::string number = fmt::format("{}.{}", version.major, version.minor);
  made.advice.clear();
  made.text = fmt::format("{}, {} (found by {})", number, location->library,
                          location->foundBy);
  made.facts = {{"path", location->library},
                {"version", number},
                {"found_by", location->foundBy},
                {"archs", (*opened)->archs()}};
  if (version < kOldestNvrtc) {
    made.state = State::Fault;
    made.advice = fmt::format(
        "too old: expected {}.{} or newer; pip install nvidia-cuda-nvrtc",
        kOldestNvrtc.major, kOldestNvrtc.minor);
  } else if (driverVersion > 0 && version.major > driverVersion / 1000) {
    made.state = State::Fault;
    made.advice =
        fmt::format("the driver is of CUDA {} and loads no cubins of "
                    "NVRTC {}: pip install nvidia-cuda-nvrtc-cu12, or "
                    "update the driver",
                    driverVersion / 1000, version.major);
  }
  return made;
}

Finding workerFinding() {
  Finding made{"workers"};
  const auto worker = runtime::findWorker();
  made.text = worker ? *worker : worker.error().message;
  made.facts = {{"path", worker ? ordered_json(*worker) : ordered_json()}};
  if (!worker && envString("MOEC_WORKER") != "off") {
    made.state = State::Note;
    made.advice = "kernels compile in threads, which is slower; install "
                  "moec-nvrtc next to the library or in libexec/moec";
  }
  return made;
}

/// Returns true if this user can create files in the folder or, if the folder
/// does not exist, in its nearest existing parent.
bool isWritable(std::string folder) {
  while (!folder.empty() && !fileExists(folder)) {
    const std::string parent = parentFolder(folder);
    if (parent == folder)
      break;
    folder = parent;
  }
  return ::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) == 0;
}

Finding cacheFinding() {
  Finding made{"cache"};
  const auto folder = envCacheFolder();
  const auto bound = envBytes("MOEC_CACHE_SIZE");
  if (!folder || !bound) {
    made.state = State::Fault;
    made.text = folder ? bound.error().message : folder.error().message;
    made.advice = "set MOEC_CACHE_DIR to a folder, and MOEC_CACHE_SIZE to a "
                  "size or to nothing";
    return made;
  }
  const auto entries = runtime::listCache(*folder);
  uint64_t bytes = 0;
  for (const runtime::CacheEntry &entry :
       entries ? *entries : std::vector<runtime::CacheEntry>())
    bytes += entry.bytes;
  const size_t count = entries ? entries->size() : 0;
  made.text =
      fmt::format("{}, {} kernels, {}", *folder, count, bytesText(bytes));
  made.facts = {{"folder", *folder},
                {"kernels", count},
                {"bytes", bytes},
                {"bound", *bound},
                {"writable", isWritable(*folder)}};
  if (!isWritable(*folder)) {
    made.state = State::Note;
    made.advice = "this user cannot write it: each load compiles what the "
                  "package and the cache lack; set MOEC_CACHE_DIR";
  }
  return made;
}

Finding ncclFinding() {
  Finding made{"nccl"};
  const auto nccl = comm::openNccl("", /*loadedAlone=*/false);
  if (!nccl) {
    made.state = State::Note;
    made.text = nccl.error().message;
    made.facts = {{"version", nullptr}};
    made.advice = "only layers that move tokens between GPUs by NCCL need it: "
                  "pip install nvidia-nccl-cu13";
    return made;
  }
  const std::string version =
      fmt::format("{}.{}.{}", nccl->version / 10000, nccl->version / 100 % 100,
                  nccl->version % 100);
  made.text = version;
  made.facts = {{"version", version}};
  return made;
}

/// A Python script that prints one JSON object with the versions of installed
/// packages. It does not import them.
constexpr const char *kPackages = R"(
import importlib.metadata, json, platform, sys
names = ("moec", "numpy", "torch", "triton", "transformers", "vllm", "sglang", "tqdm", "nvidia-cuda-nvrtc",
         "nvidia-cuda-nvrtc-cu12", "nvidia-nccl-cu13", "nvidia-nccl-cu12")
found = {}
for name in names:
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps({"executable": sys.executable, "version": platform.python_version(), "packages": found}))
)";

Finding pythonFinding() {
  Finding made{"python"};
  const auto printed = outputOf(pythonName(), {"-c", kPackages});
  constexpr size_t kMostBytes = 1 << 16;
  const Result<nlohmann::json> facts = parseJsonObject(
      printed.value_or(""), "python", ErrorCode::Internal, {kMostBytes});
  if (!facts || !facts->contains("packages")) {
    made.state = State::Note;
    made.text = fmt::format("{} does not start", pythonName());
    made.advice = "moec bench, moec warmup and the Python API need Python 3.10 "
                  "or newer; MOEC_PYTHON names one";
    return made;
  }
  made.facts = *facts;
  const nlohmann::json &packages = facts->at("packages");
  made.text = fmt::format("{} {}", facts->at("version").get<std::string>(),
                          facts->at("executable").get<std::string>());
  for (const auto &[name, version] : packages.items())
    made.text += fmt::format(", {} {}", name, version.get<std::string>());
  if (!packages.contains("moec")) {
    made.state = State::Note;
    made.advice = "moec bench, moec warmup and the Python API need the package "
                  "moec: pip install its wheel";
  }
  return made;
}

/// A layer that every arch supports.
constexpr std::string_view kSmallLayer = R"({
  "moec_layer": 1, "name": "doctor", "num_experts": 2, "top_k": 1,
  "hidden_size": 64, "intermediate_size": 64, "in_dtype": "f16"
})";

/// Compiles a small layer with an empty cache.
Finding compileFinding(const std::string &arch) {
  Finding made{"compile"};
  const auto start = Clock::now();
  const auto compiled = [&]() -> Result<size_t> {
    const std::string folder =
        TRY(createTemporaryFolderBeside("/tmp/moec-doctor"));
    CompileOptions options;
    options.archs = {arch};
    options.maxTokens = 1;
    options.cacheFolder = folder;
    Input input;
    const auto shares = [&]() -> Result<Shares> {
      TRY(input.readText(kSmallLayer, "doctor", {}));
      return input.compile(options);
    }();
    TRY(removeAll(folder));
    if (!shares)
      return shares.error();
    return shares->front().manifest.targets.front().kernels.size();
  }();
  if (!compiled) {
    made.state = State::Fault;
    made.text = compiled.error().message;
    made.advice = "the message names what is missing";
    made.facts = {{"error", compiled.error().message}};
    return made;
  }
  const double milliseconds = millisecondsSince(start);
  made.text = fmt::format("{} kernels for {} in {:.0f} ms", *compiled, arch,
                          milliseconds);
  made.facts = {
      {"arch", arch}, {"kernels", *compiled}, {"milliseconds", milliseconds}};
  return made;
}

/// Returns the environment variables that are set and that moec reads.
Finding variablesFinding() {
  Finding made{"variables"};
  std::vector<std::string> set;
  for (const EnvVariable &variable : kEnvVariables) {
    const bool isOurs = variable.name.starts_with("MOEC_") ||
                        variable.name.starts_with("CUDA_") ||
                        variable.name == "VIRTUAL_ENV";
    const std::string value = isOurs ? envString(variable) : "";
    if (value.empty() || value == variable.defaultValue)
      continue;
    made.facts[std::string(variable.name)] = value;
    set.push_back(fmt::format("{}={}", variable.name, value));
  }
  made.text =
      set.empty() ? "none is set" : fmt::format("{}", fmt::join(set, ", "));
  const std::vector<std::string> misspelt = misspeltVariables();
  if (!misspelt.empty()) {
    made.state = State::Note;
    made.advice = fmt::format("{}", fmt::join(misspelt, "; "));
  }
  return made;
}

/// Returns a sentence that states what this machine can do, according to the
/// findings.
std::string verdict(const std::vector<Finding> &all) {
  const auto find = [&](std::string_view name) -> const Finding * {
    for (const Finding &each : all)
      if (each.name == name && each.state == State::Ok)
        return &each;
    return nullptr;
  };
  const bool compiles = find("nvrtc") != nullptr;
  const Finding *gpu = find("gpu");
  return fmt::format("{}; {}",
                     compiles
                         ? "compiles kernels here"
                         : "compiles no kernels here (moec compile --no-cubin "
                           "works)",
                     gpu ? fmt::format("runs packages on {}",
                                       gpu->facts["name"].get<std::string>())
                         : "runs packages on the host device only");
}

std::string doctorText(const std::vector<Finding> &all) {
  std::string text =
      fmt::format("{}, {}\n", compilerVersion(), runtime::pathOfOwnBinary());
  constexpr size_t kIndent = 18;
  for (const Finding &each : all) {
    const Color color = each.state == State::Ok     ? Color::Green
                        : each.state == State::Note ? Color::Yellow
                                                    : Color::Red;
    const std::string state = fmt::format("{:<5}", stateName(each.state));
    text += fmt::format("  {}  {:<9}  {}\n", colored(state, color), each.name,
                        each.text);
    if (!each.advice.empty())
      text += fmt::format("{:{}}{}\n", "", kIndent + 2, each.advice);
  }
  return text + verdict(all) + "\n";
}

ordered_json doctorJson(const std::vector<Finding> &all) {
  ordered_json made = {{"moec", compilerVersion()},
                       {"path", runtime::pathOfOwnBinary()},
                       {"summary", verdict(all)},
                       {"findings", ordered_json::array()}};
  for (const Finding &each : all)
    made["findings"].push_back(
        {{"name", each.name},
         {"state", stateName(each.state)},
         {"text", each.text},
         {"advice",
          each.advice.empty() ? ordered_json() : ordered_json(each.advice)},
         {"facts", each.facts}});
  return made;
}

} // namespace

Result<int> moec::compiler::runDoctor(bool json, bool compiles) {
  int driverVersion = 0;
  std::vector<Finding> all = {systemFinding()};
  std::string arch = "sm_90a";
  for (Finding &each : gpuFindings(driverVersion)) {
    if (each.facts.contains("arch") && each.facts["arch"].is_string())
      arch = each.facts["arch"].get<std::string>();
    all.push_back(std::move(each));
  }
  all.push_back(nvrtcFinding(driverVersion));
  all.push_back(workerFinding());
  all.push_back(cacheFinding());
  all.push_back(ncclFinding());
  all.push_back(pythonFinding());
  all.push_back(variablesFinding());
  if (compiles)
    all.push_back(compileFinding(arch));
  TRY(writeStandardOutput(
      json ? doctorJson(all).dump(2, ' ', false,
                                  ordered_json::error_handler_t::replace) +
                 "\n"
           : doctorText(all)));
  return std::ranges::any_of(
             all,
             [](const Finding &each) { return each.state == State::Fault; })
             ? 1
             : 0;
}

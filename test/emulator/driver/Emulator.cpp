//===- Emulator.cpp - the emulated machine behind the driver's functions --===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Settings, memory, and the loop that runs what streams have.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/driver/Emulator.h"

#include <fmt/core.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>

using namespace moec::emulator;
using namespace moec::runtime::cuda;

/// Another thread of the host may take so long to launch what kernels wait for;
/// where it is one of another rank, so long.
static constexpr std::chrono::milliseconds kPatience(300);
static constexpr std::chrono::seconds kRankPatience(20);
/// Rounds without an effect after which kernels of several GPUs let other
/// threads of the host run.
static constexpr unsigned kIdleRounds = 64;
static constexpr size_t kMemory = size_t(16) << 30;

static bool parseNumber(std::string_view text, uint32_t &value) {
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// sm_90a is 9 and 0; sm_120f is 12 and 0.
static bool parseArch(std::string_view arch, int &major, int &minor) {
  uint32_t number = 0;
  if (!arch.starts_with("sm_"))
    return false;
  std::string_view digits = arch.substr(3);
  if (digits.ends_with('a') || digits.ends_with('f'))
    digits.remove_suffix(1);
  if (!parseNumber(digits, number) || number < 50)
    return false;
  major = int(number / 10);
  minor = int(number % 10);
  return true;
}

std::string moec::emulator::parseSettings(const std::string &words,
                                          DriverSettings &settings) {
  for (size_t begin = 0; begin < words.size();) {
    size_t end = std::min(words.find_first_of(" ,", begin), words.size());
    const std::string_view word =
        std::string_view(words).substr(begin, end - begin);
    begin = end + 1;
    if (word.empty())
      continue;
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const std::string_view value =
        equals == std::string_view::npos ? "" : word.substr(equals + 1);
    Settings &device = settings.device;
    bool isRight = false;
    uint32_t number = 0;
    if (name == "arch") {
      isRight = parseArch(value, settings.major, settings.minor);
      settings.arch = value;
    } else if (name == "timing") {
      isRight = value == "at_once" || value == "late" || value == "random";
      device.timing = value == "late"     ? Timing::Late
                      : value == "random" ? Timing::Random
                                          : Timing::AtOnce;
    } else if (name == "seed") {
      isRight = parseNumber(value, device.seed);
    } else if (name == "devices") {
      isRight = parseNumber(value, device.numGpus) && device.numGpus > 0 &&
                device.numGpus <= kMaxGpus;
    } else if (name == "sms") {
      isRight = parseNumber(value, device.numSms) && device.numSms > 0;
    } else if (name == "checks") {
      device.checkRaces = value == "all" || value == "races";
      device.checkUndefined = value == "all" || value == "undefined";
      isRight = device.checkRaces || device.checkUndefined || value == "none";
    } else if (name == "sums") {
      isRight = value == "exact" || value == "card";
      device.cardSums = value == "card";
    } else if (name == "log") {
      isRight = parseNumber(value, number) && number <= 2;
      settings.logs = number != 0;
      device.logsCopies = number == 2;
    } else {
      return fmt::format("MOEC_EMULATOR has '{}', expected arch, timing, seed, "
                         "devices, sms, checks, sums or log",
                         word);
    }
    if (!isRight)
      return fmt::format("MOEC_EMULATOR has '{}', which is no value of {}",
                         word, name);
  }
  if (settings.device.cardSums && (settings.major != 9 || settings.minor != 0))
    return fmt::format("MOEC_EMULATOR has 'sums=card' for {}, expected sm_90 "
                       "or sm_90a: other cards' sums are not known",
                       settings.arch);
  // Consumer parts have less shared memory and fewer threads.
  const bool isLarge =
      settings.minor == 0 &&
      (settings.major == 8 || settings.major == 9 || settings.major == 10);
  if (settings.major == 8 && isLarge) {
    settings.device.sharedPerSm = 167936;
    settings.device.sharedPerCta = 166912;
  } else if (!isLarge && settings.major != 10) {
    settings.device.sharedPerSm = 102400;
    settings.device.sharedPerCta = 101376;
    settings.device.threadsPerSm = 1536;
  }
  return "";
}

static std::optional<std::string> givenWords;

void moec::emulator::setWords(const std::string &words) {
  if (!givenWords)
    givenWords = words;
}

Emulator::Emulator() {
  const char *words = std::getenv("MOEC_EMULATOR");
  settingsError = parseSettings(givenWords ? *givenWords
                                : words    ? words
                                           : "",
                                settings);
  device = std::make_unique<Device>(settings.device);
  device->onFinding = [this](const Finding &finding) {
    hasFailed.fill(true);
    std::fprintf(stderr, "emulator: %s\n", finding.text.c_str());
  };
}

Emulator &Emulator::get() {
  // Never freed: threads may still call while the process ends.
  static auto *emulator = new Emulator();
  return *emulator;
}

void Emulator::enqueue(CUstream stream, Record record) {
  if (StreamState *state = stateOf(stream); state && state->captures) {
    state->records.push_back(std::move(record));
    return;
  }
  if (record.launch)
    device->enqueue(idOf(stream), std::move(*record.launch));
  else
    device->enqueueAction(idOf(stream), std::move(record.action));
  launched.notify_all();
}

void FairMutex::lock() {
  std::unique_lock held(mutex);
  const uint64_t mine = next++;
  changed.wait(held, [&] { return serving == mine; });
}

void FairMutex::unlock() {
  {
    const std::lock_guard held(mutex);
    ++serving;
  }
  changed.notify_all();
}

int Emulator::synchronize(Lock &lock, unsigned gpu,
                          std::optional<uint64_t> stream) {
  using Clock = std::chrono::steady_clock;
  auto isIdle = [&] {
    return stream ? device->isIdle(*stream) : device->isGpuIdle(gpu);
  };
  const bool hasRanks = settings.device.numGpus > 1;
  uint64_t effects = device->effects;
  unsigned idleRounds = 0;
  Clock::time_point lastEffect = Clock::now();
  for (unsigned round = 0; !isIdle(); ++round) {
    const bool goesOn = device->advance();
    if (effects != device->effects) {
      effects = device->effects;
      idleRounds = 0;
      lastEffect = Clock::now();
    }
    // Kernels of other ranks may come as long as their threads live.
    const bool mayCome = hasRanks && Clock::now() - lastEffect < kRankPatience;
    if (!goesOn) {
      if (launched.wait_for(lock, kPatience) == std::cv_status::timeout &&
          !mayCome)
        device->abandon("deadlock");
    } else if ((device->isHanging() && !mayCome) ||
               device->runsOnAfterFault()) {
      device->abandon("hang");
    } else if (hasRanks && ++idleRounds > kIdleRounds) {
      launched.wait_for(lock, std::chrono::milliseconds(1));
    } else if (round % 16 == 15) {
      lock.unlock();
      lock.lock();
    }
  }
  device->noteAwaited(gpu);
  const int status = hasFailed[gpu] ? kLaunchFailed : kSuccess;
  hasFailed[gpu] = false;
  return status;
}

int Emulator::allocate(size_t bytes, bool isDefined, int gpu,
                       uint64_t &address) {
  if (bytes == 0)
    return kInvalidValue;
  const auto owner = size_t(std::max(gpu, 0));
  if (allocated[owner] + bytes > kMemory)
    return kOutOfMemory;
  constexpr size_t kAlignment = 512;
  Allocation allocation;
  allocation.bytes.reset(static_cast<uint8_t *>(std::aligned_alloc(
      kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment)));
  if (!allocation.bytes)
    return kOutOfMemory;
  allocation.size = bytes;
  std::memset(allocation.bytes.get(), 0xFF, bytes);
  address = reinterpret_cast<uint64_t>(allocation.bytes.get());
  device->addRegion(address, bytes, isDefined, gpu);
  allocated[owner] += bytes;
  allocations[address] = std::move(allocation);
  return kSuccess;
}

int Emulator::release(uint64_t address) {
  if (address == 0)
    return kSuccess;
  auto it = allocations.find(address);
  if (it == allocations.end())
    return kInvalidValue;
  const Region *region = device->findRegion(address, 1);
  allocated[size_t(std::max(region->gpu, 0))] -= it->second.size;
  device->removeRegion(address);
  allocations.erase(it);
  return kSuccess;
}

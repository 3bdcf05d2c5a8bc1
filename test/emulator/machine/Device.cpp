//===- Device.cpp - streams, grids and their CTAs -------------------------===//
//
// Part of moec, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Starts what may start, gives each warp some steps, lands asynchronous work
// as the timing says.
//
//===----------------------------------------------------------------------===//

#include "test/emulator/machine/Machine.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

using namespace moec::emulator;

/// Steps of a warp before the next one has a turn.
static constexpr unsigned kQuantum = 4000;
/// Rounds after which late work lands although warps still poll.
static constexpr uint32_t kPatience = 200;
/// CTAs of an SM at most, whatever they need.
static constexpr uint32_t kMaxCtasPerSm = 32;
/// Shared memory of each CTA that the system takes [bytes].
static constexpr uint32_t kReservedShared = 1024;

//===----------------------------------------------------------------------===//
// CTAs
//===----------------------------------------------------------------------===//

Cta::Cta(Grid &grid, Cluster &cluster, uint32_t index)
    : grid(grid), cluster(cluster), device(grid.device), index(index),
      rank(index % grid.launch.cluster), threads(grid.launch.block.volume()) {
  const Kernel &kernel = *grid.kernel;
  id = device.recordCta(grid, index);
  const uint32_t bytes =
      (kernel.dynamicSharedAlign ? kernel.dynamicSharedBegin()
                                 : kernel.staticSharedBytes) +
      grid.launch.dynamicShared;
  // Memory that is never written is a pattern that no result survives.
  shared.assign(bytes, 0xA5);
  sharedDefined.assign(bytes, 0);
  if (device.settings.checkRaces)
    shadow = std::make_unique<SharedShadow>(*this, bytes);
  auto view = std::make_shared<Clocks>();
  view->cta = id;
  view->own.resize(threads);
  for (unsigned gpu = 0; gpu < device.settings.numGpus; ++gpu)
    view->join(device.learnedUpTo(gpu, grid.known[gpu]));
  for (unsigned gpu = 0; gpu < kMaxGpus; ++gpu)
    view->launches[gpu] = std::max(view->launches[gpu], grid.known[gpu]);
  view->launches[grid.launch.gpu] = grid.known[grid.launch.gpu];
  for (unsigned i = 0; i < (threads + kLanes - 1) / kLanes; ++i) {
    warps.push_back(std::make_unique<Warp>(*this, i));
    warps.back()->clocks.start(i * kLanes, view);
  }
}

Cta *Cta::peer(uint32_t ofRank) {
  return ofRank < cluster.ctas.size() ? cluster.ctas[ofRank].get() : nullptr;
}

bool Cta::hasEnded() const { return liveThreads() == 0; }

uint32_t Cta::liveThreads() const {
  uint32_t count = 0;
  for (const auto &warp : warps)
    count += uint32_t(std::popcount(warp->live));
  return count;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Device::Device(const Settings &settings)
    : settings(settings), random(settings.seed), records(1) {}

Device::~Device() = default;

void Device::addRegion(uint64_t begin, uint64_t bytes, bool isDefined,
                       int gpu) {
  Region region{begin, begin + bytes, gpu, {}, nullptr};
  if (settings.checkUndefined)
    region.defined.assign(bytes, isDefined);
  if (settings.checkRaces)
    region.shadow = std::make_unique<GlobalShadow>(bytes);
  regions[begin] = std::move(region);
  lastRegion = nullptr;
}

bool Device::removeRegion(uint64_t begin) {
  lastRegion = nullptr;
  return regions.erase(begin) != 0;
}

Region *Device::findRegion(uint64_t address, uint64_t bytes) {
  auto holds = [&](const Region &region) {
    return address >= region.begin && bytes <= region.end - region.begin &&
           address <= region.end - bytes;
  };
  if (lastRegion && holds(*lastRegion))
    return lastRegion;
  auto it = regions.upper_bound(address);
  if (it == regions.begin() || !holds((--it)->second))
    return nullptr;
  return lastRegion = &it->second;
}

Region *Device::findRegion(uint64_t address, uint64_t bytes, const Grid &grid) {
  Region *region = findRegion(address, bytes);
  const unsigned gpu = grid.launch.gpu;
  const bool reaches =
      region && (region->gpu < 0 || unsigned(region->gpu) == gpu ||
                 hasPeer(gpu, unsigned(region->gpu)));
  return reaches ? region : nullptr;
}

std::string Device::whyUnreachable(uint64_t address) {
  const Region *region = findRegion(address, 1);
  return region ? fmt::format("is memory of GPU {} or ends behind it: no peer "
                              "access was enabled",
                              region->gpu)
                : "is in no allocation";
}

//===----------------------------------------------------------------------===//
// Findings
//===----------------------------------------------------------------------===//

void Device::report(const std::string &kind, const Warp *warp, const Inst *inst,
                    std::optional<unsigned> lane, const std::string &text) {
  std::string what = kind + ": ";
  std::string key = kind;
  if (warp) {
    const Kernel &kernel = *warp->cta.grid.kernel;
    if (inst) {
      what += kernel.placeOf(*inst);
      key += what;
    } else {
      what += kernel.name;
    }
    if (settings.numGpus > 1)
      what += fmt::format(", GPU {}", warp->cta.grid.launch.gpu);
    what += fmt::format(", CTA {}, warp {}", warp->cta.index, warp->index);
    if (lane)
      what += fmt::format(", lane {}", *lane);
    what += ": ";
  }
  if (!stepOfFault && !isIdle())
    stepOfFault = steps;
  what += text;
  if (inst)
    what += fmt::format(" [{}]", inst->text.substr(0, 100));
  if (!inst)
    key = what;
  // One finding for each kind and instruction.
  auto [it, isNew] = foundAt.try_emplace(key, found.size());
  if (!isNew && it->second < found.size()) {
    ++found[it->second].count;
    return;
  }
  it->second = found.size();
  found.push_back({kind, what});
  if (onFinding)
    onFinding(found.back());
}

bool Device::hasFinding(const std::string &kind) const {
  return std::ranges::any_of(
      found, [&](const Finding &finding) { return finding.kind == kind; });
}

uint64_t Device::recordCta(const Grid &grid, uint32_t index) {
  records.push_back({grid.number, index, grid.launch.gpu, grid.launch.kernel});
  return records.size() - 1;
}

TensorMemory &Device::tensorMemoryOf(const Cta &cta) {
  // CTAs of a cluster are on different SMs.
  const uint32_t sms = std::max(settings.numSms, cta.grid.launch.cluster);
  return tensorMemories[cta.grid.launch.gpu * sms + cta.index % sms];
}

void Device::abandon(const char *kind) {
  unsigned shown = 0;
  std::string text =
      runsOnAfterFault() ? "this goes on after a fault:" : "nothing can go on:";
  for (auto &[id, stream] : streams) {
    for (auto &grid : stream.grids)
      grid->forCtas([&](Cta &cta) {
        for (auto &warp : cta.warps)
          for (const Group &group : warp->groups) {
            if (++shown > 24)
              continue;
            const Inst &inst = grid->kernel->code[group.pc];
            text += fmt::format(
                "\n    {}: {}CTA {}, warp {}, lanes {:08x}: {}",
                grid->kernel->placeOf(inst),
                settings.numGpus > 1 ? fmt::format("GPU {}, ", grid->launch.gpu)
                                     : "",
                cta.index, warp->index, group.lanes, inst.text.substr(0, 80));
          }
      });
    if (stream.grids.empty() && !stream.queue.empty())
      text += fmt::format("\n    GPU {}: a collective of a stream waits for "
                          "other ranks",
                          id % kMaxGpus);
    stream.grids.clear();
    stream.queue.clear();
  }
  tensorMemories.clear();
  if (shown > 24)
    text += fmt::format("\n    and {} more", shown - 24);
  report(kind, nullptr, nullptr, {}, text);
  lastEffect = steps;
  stepOfFault.reset();
}

//===----------------------------------------------------------------------===//
// Streams
//===----------------------------------------------------------------------===//

void Device::enqueue(uint64_t stream, Launch launch) {
  launch.gpu = unsigned(stream % kMaxGpus);
  streams[stream].queue.push_back({std::move(launch), {}, awaited});
}

void Device::enqueueAction(uint64_t stream, std::function<bool()> action) {
  streams[stream].queue.push_back({{}, std::move(action), {}});
}

bool Device::isIdle(uint64_t id) const {
  auto it = streams.find(id);
  return it == streams.end() ||
         (it->second.queue.empty() && it->second.grids.empty());
}

uint32_t Device::residentCtas(const Launch &launch) const {
  const uint32_t threads =
      (launch.block.volume() + kLanes - 1) / kLanes * kLanes;
  const uint32_t shared =
      launch.kernel->staticSharedBytes + launch.dynamicShared;
  if (threads > std::min(launch.kernel->maxThreads + kLanes - 1, 1024u) ||
      shared > settings.sharedPerCta)
    return 0;
  return settings.numSms *
         std::min({settings.threadsPerSm / threads,
                   settings.sharedPerSm / (shared + kReservedShared),
                   kMaxCtasPerSm});
}

bool Device::startWork() {
  bool progress = false;
  for (auto &[id, stream] : streams)
    while (!stream.queue.empty()) {
      Work &work = stream.queue.front();
      if (work.action) {
        if (!stream.grids.empty() || !work.action())
          break;
        stream.queue.pop_front();
        noteEffect();
        progress = true;
        continue;
      }
      Grid *before = stream.grids.empty() ? nullptr : stream.grids.back().get();
      const bool overlaps = before && work.launch->programmatic &&
                            settings.timing != Timing::AtOnce &&
                            before->triggered == before->numCtas();
      if (before && !overlaps)
        break;
      auto grid = std::make_unique<Grid>(*this, std::move(*work.launch));
      grid->kernel = grid->launch.kernel.get();
      const unsigned gpu = grid->launch.gpu;
      const LaunchNumbers earlier = numLaunches;
      grid->number = ++numLaunches[gpu];
      // A launch that may overlap its predecessor knows no more than those
      // that triggered it, whether or not they meet in time.
      grid->known = work.known;
      grid->known[gpu] = earlier[gpu];
      if (grid->launch.programmatic)
        grid->known[gpu] =
            std::min(grid->known[gpu],
                     before ? before->triggerKnown : stream.triggerKnown);
      // A launch that knows all earlier ones needs none of their releases.
      if (grid->known == earlier &&
          std::ranges::all_of(streams, [](const auto &one) {
            return one.second.grids.empty();
          }))
        syncVariables.clear();
      grid->predecessor = before;
      grid->resident = residentCtas(grid->launch);
      std::ranges::copy(grid->launch.params, grid->params.begin());
      if (grid->resident < grid->launch.cluster ||
          (grid->launch.cooperative && grid->resident < grid->numCtas()))
        report("launch", nullptr, nullptr, {},
               fmt::format("kernel {}: {} CTAs of {} threads and {} bytes of "
                           "shared memory do not fit the device",
                           grid->kernel->name, grid->numCtas(),
                           grid->launch.block.volume(),
                           grid->launch.dynamicShared));
      else if (grid->numCtas())
        stream.grids.push_back(std::move(grid));
      stream.queue.pop_front();
      progress = true;
      lastEffect = steps;
    }
  return progress;
}

bool Device::endGrids() {
  bool progress = false;
  for (auto &[id, stream] : streams)
    while (!stream.grids.empty() && stream.grids.front()->hasEnded()) {
      for (auto &grid : stream.grids)
        if (grid->predecessor == stream.grids.front().get())
          grid->predecessor = nullptr;
      stream.triggerKnown = stream.grids.front()->triggerKnown;
      learnFrom(*stream.grids.front());
      if (settings.logsCopies)
        std::fprintf(
            stderr, "emulator: launch of %s: %llu bytes copied\n",
            stream.grids.front()->kernel->name.c_str(),
            static_cast<unsigned long long>(stream.grids.front()->copiedBytes));
      stream.grids.pop_front();
      noteEffect();
      progress = true;
    }
  if (progress && isIdle())
    stepOfFault.reset();
  return progress;
}

bool Device::advance() {
  bool progress = endGrids();
  progress |= startWork();
  std::vector<Stream *> ready;
  for (auto &[id, stream] : streams)
    if (!stream.grids.empty())
      ready.push_back(&stream);
  if (settings.timing == Timing::Random)
    std::ranges::shuffle(ready, random);
  for (Stream *running : ready) {
    Stream &stream = *running;
    // Late: a predecessor goes on where its successors cannot.
    std::vector<Grid *> order;
    for (auto &grid : stream.grids)
      order.push_back(grid.get());
    if (settings.timing == Timing::Late)
      std::ranges::reverse(order);
    if (settings.timing == Timing::Random)
      std::ranges::shuffle(order, random);
    for (Grid *grid : order) {
      const uint64_t before = effects;
      progress |= startCtas(*grid);
      progress |= stepGrid(*grid);
      // A successor that polls for what its predecessor does has no effect.
      if (effects != before && settings.timing == Timing::Late)
        break;
    }
  }
  return progress || landAny();
}

void Device::learnFrom(Grid &grid) {
  if (settings.numGpus == 1 || !settings.checkRaces)
    return;
  // Clocks of its own GPU are known by the number of the launch.
  const unsigned gpu = grid.launch.gpu;
  for (auto *clocks : {&grid.learned.others, &grid.learned.otherProxies})
    std::erase_if(*clocks, [&](const auto &one) {
      return records[one.first].gpu == gpu;
    });
  Clocks all = learnedUpTo(gpu, numLaunches[gpu]);
  all.join(grid.learned);
  learned[gpu][grid.number] = std::move(all);
  constexpr size_t kKept = 32;
  if (learned[gpu].size() > kKept)
    learned[gpu].erase(learned[gpu].begin());
}

const Clocks &Device::learnedUpTo(unsigned gpu, uint64_t number) const {
  static const Clocks kNothing;
  auto it = learned[gpu].upper_bound(number);
  return it == learned[gpu].begin() ? kNothing : std::prev(it)->second;
}

bool Device::isGpuIdle(unsigned gpu) const {
  return std::ranges::all_of(streams, [&](const auto &stream) {
    return stream.first % kMaxGpus != gpu || isIdle(stream.first);
  });
}

void Device::noteAwaited(unsigned gpu) {
  if (isGpuIdle(gpu))
    awaited[gpu] = numLaunches[gpu];
}

bool Device::isIdle() const {
  return std::ranges::all_of(
      streams, [&](const auto &stream) { return isIdle(stream.first); });
}

bool Device::synchronize() {
  const size_t before = found.size();
  while (!isIdle()) {
    if (!advance())
      abandon("deadlock");
    else if (isHanging() || runsOnAfterFault())
      abandon("hang");
  }
  return found.size() == before;
}

//===----------------------------------------------------------------------===//
// Grids
//===----------------------------------------------------------------------===//

bool Device::startCtas(Grid &grid) {
  bool progress = false;
  const uint32_t cluster = grid.launch.cluster;
  while (grid.nextCta < grid.numCtas() &&
         (grid.clusters.size() + 1) * cluster <= grid.resident) {
    auto started = std::make_unique<Cluster>();
    for (uint32_t rank = 0; rank < cluster; ++rank)
      started->ctas.push_back(
          std::make_unique<Cta>(grid, *started, grid.nextCta++));
    grid.clusters.push_back(std::move(started));
    progress = true;
  }
  return progress;
}

bool Device::stepGrid(Grid &grid) {
  bool progress = false;
  std::vector<Cta *> order;
  grid.forCtas([&](Cta &cta) { order.push_back(&cta); });
  if (settings.timing == Timing::Random)
    std::ranges::shuffle(order, random);
  for (Cta *cta : order)
    progress |= stepCta(*cta);
  for (auto &cluster : grid.clusters)
    if (std::ranges::all_of(cluster->ctas,
                            [](const auto &cta) { return cta->done; })) {
      endCluster(*cluster);
      cluster = nullptr;
      progress = true;
    }
  std::erase(grid.clusters, nullptr);
  return progress;
}

void Device::endCluster(Cluster &cluster) {
  for (auto &cta : cluster.ctas) {
    Grid &grid = cta->grid;
    ++grid.ended;
    if (!cta->triggered)
      ++grid.triggered;
  }
}

void Device::landOne(Cta &cta) {
  const size_t which =
      settings.timing == Timing::Random ? random() % cta.events.size() : 0;
  Event event = std::move(cta.events[which]);
  cta.events.erase(cta.events.begin() + long(which));
  cta.roundsLate = 0;
  event.land();
  noteEffect();
}

bool Device::landAny() {
  for (auto &[id, stream] : streams)
    for (auto &grid : stream.grids)
      for (auto &cluster : grid->clusters)
        for (auto &cta : cluster->ctas)
          if (!cta->events.empty()) {
            landOne(*cta);
            return true;
          }
  return false;
}

bool Device::stepCta(Cta &cta) {
  bool progress = false;
  std::vector<Warp *> order;
  for (auto &warp : cta.warps)
    if (!warp->groups.empty())
      order.push_back(warp.get());
  const bool isRandom = settings.timing == Timing::Random;
  if (isRandom)
    std::ranges::shuffle(order, random);
  for (Warp *warp : order)
    progress |= runWarp(*warp, isRandom ? 1 + random() % 400 : kQuantum);
  if (!cta.events.empty() &&
      ((isRandom && chance(3)) || ++cta.roundsLate > kPatience)) {
    landOne(cta);
    progress = true;
  }
  const bool ended = std::ranges::all_of(
      cta.warps, [](const auto &warp) { return warp->groups.empty(); });
  if (ended) {
    while (!cta.events.empty())
      landOne(cta);
    finishCta(cta);
    progress = true;
  }
  return progress;
}

void Device::finishTensorWork(Cta &cta) {
  for (auto &warp : cta.warps)
    for (const auto *works :
         {&warp->tensorWork.loads, &warp->tensorWork.stores})
      if (!works->empty())
        report("async", warp.get(), works->front().inst, {},
               "the warp ended before a tcgen05.wait for this");
  for (auto &[thread, issuer] : cta.tensor.threads)
    if (issuer.uncommitted)
      report("async", cta.warps[thread / kLanes].get(), issuer.uncommitted,
             thread % kLanes, "the CTA ended before a tcgen05.commit for this");
  for (const TensorColumns &columns : cta.tensor.columns) {
    report("tcgen05", cta.warps[0].get(), columns.inst, {},
           fmt::format("the CTA ended with columns {} to {} of tensor memory "
                       "allocated",
                       columns.begin, columns.begin + columns.count - 1));
    cta.tensor.memory->give(columns.begin, columns.count);
  }
}

void Device::finishCta(Cta &cta) {
  for (auto &warp : cta.warps) {
    if (!warp->multiplies.empty())
      report("async", warp.get(), warp->multiplies.front().inst, {},
             "the warp ended before this multiply was awaited");
    for (AsyncWork &store : warp->stores) {
      if (!store.ran)
        store.run();
      if (!store.reads.empty())
        report("async", warp.get(), store.inst, {},
               "the CTA ended before this store had read its shared memory");
    }
    warp->stores.clear();
  }
  finishTensorWork(cta);
  Grid &grid = cta.grid;
  if (grid.launch.programmatic && !cta.awaitedGrid)
    report("launch", cta.warps[0].get(), nullptr, {},
           "a CTA of a programmatic launch ended without griddepcontrol.wait");
  if (settings.numGpus > 1 && settings.checkRaces)
    for (auto &warp : cta.warps)
      for (unsigned lane = 0; lane < kLanes; ++lane)
        if (lane == 0 || warp->clocks.viewPointer(lane) !=
                             warp->clocks.viewPointer(lane - 1))
          grid.learned.join(warp->clocks.view(lane));
  cta.done = true;
  cta.shadow.reset();
  noteEffect();
}

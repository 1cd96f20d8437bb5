#include "athanor/base/topology.h"

#include <hwloc.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::base {
namespace {

using Topology = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)>;
using CpuSet = std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)>;

constexpr int kMaxProcessors = 1 << 16;

// Null where there is nothing to be known.
Topology load_topology(const char* synthetic) {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) return {nullptr, hwloc_topology_destroy};
  Topology topology(raw, hwloc_topology_destroy);
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_GROUP,
                                 HWLOC_TYPE_FILTER_KEEP_STRUCTURE);  // nodes hang on them
  if ((synthetic != nullptr && hwloc_topology_set_synthetic(raw, synthetic) != 0) ||
      hwloc_topology_load(raw) != 0)
    return {nullptr, hwloc_topology_destroy};
  return topology;
}

CpuSet make_cpu_set() {
  cpu_set_t* set = CPU_ALLOC(kMaxProcessors);
  CPU_ZERO_S(CPU_ALLOC_SIZE(kMaxProcessors), set);
  return {set, [](cpu_set_t* old) { CPU_FREE(old); }};
}

// The processors that the calling thread may run on; empty if the system does not say.
std::vector<int> processors_of_this_thread() {
  const CpuSet set = make_cpu_set();
  std::vector<int> processors;
  if (sched_getaffinity(0, CPU_ALLOC_SIZE(kMaxProcessors), set.get()) != 0) return processors;
  for (int p = 0; p < kMaxProcessors; ++p)
    if (CPU_ISSET_S(p, CPU_ALLOC_SIZE(kMaxProcessors), set.get())) processors.push_back(p);
  return processors;
}

std::vector<Core> cores_of(hwloc_topology_t topology, std::span<const int> allowed) {
  // Some machines do not say which of their processors share a core.
  const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
  std::vector<Core> cores;
  const hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  for (hwloc_obj_t object = nullptr;
       (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;) {
    Core core;
    const int node = hwloc_bitmap_first(object->nodeset);
    core.node = std::max(node, 0);
    for (int p = hwloc_bitmap_first(object->cpuset); p >= 0; p = hwloc_bitmap_next(object->cpuset, p))
      if (allowed.empty() || std::find(allowed.begin(), allowed.end(), p) != allowed.end())
        core.processors.push_back(p);
    if (!core.processors.empty()) cores.push_back(std::move(core));
  }
  std::stable_sort(cores.begin(), cores.end(), [](const Core& a, const Core& b) { return a.node < b.node; });
  return cores;
}

// Part number `part` of `parts` equal ones of [0, count).
std::pair<size_t, size_t> part_of(size_t count, int parts, int part) {
  const auto at = [&](int i) { return count * static_cast<size_t>(i) / static_cast<size_t>(parts); };
  return {at(part), at(part + 1)};
}

// Each rank belongs to the node on which the middle of its even share lies; the ranks of a node share its cores.
std::span<const Core> share_of_node(std::span<const Core> cores, int ranks, int rank) {
  const auto node_of = [&](int r) {
    return cores[(2 * static_cast<size_t>(r) + 1) * cores.size() / (2 * static_cast<size_t>(ranks))].node;
  };
  const auto neighbours = [&](int first, int last) {
    int count = 0;
    for (int r = first; r < last; ++r) count += node_of(r) == node_of(rank) ? 1 : 0;
    return count;
  };
  const int ranks_before = neighbours(0, rank), ranks_here = ranks_before + 1 + neighbours(rank + 1, ranks);
  const auto is_here = [node = node_of(rank)](const Core& core) { return core.node == node; };
  const auto first = static_cast<size_t>(std::find_if(cores.begin(), cores.end(), is_here) - cores.begin());
  const auto count = static_cast<size_t>(std::count_if(cores.begin(), cores.end(), is_here));
  const auto [begin, end] = part_of(count, ranks_here, ranks_before);
  return cores.subspan(first + begin, end - begin);
}

// First every core's first hyperthread, then their second ones ...
std::vector<int> by_hyperthread(std::span<const Core> cores) {
  std::vector<int> processors;
  for (size_t level = 0;; ++level) {
    const size_t before = processors.size();
    for (const Core& core : cores)
      if (level < core.processors.size()) processors.push_back(core.processors[level]);
    if (processors.size() == before) return processors;
  }
}

std::span<const Core> even_share(std::span<const Core> cores, int ranks, int rank) {
  const auto [begin, end] = part_of(cores.size(), ranks, rank);
  return cores.subspan(begin, end - begin);
}

}  // namespace

std::vector<Core> usable_cores() {
  const Topology topology = load_topology(nullptr);
  const std::vector<int> allowed = processors_of_this_thread();
  if (topology == nullptr || allowed.empty()) return {};
  return cores_of(topology.get(), allowed);
}

std::vector<Core> synthetic_cores(const std::string& description, std::span<const int> allowed) {
  const Topology topology = load_topology(description.c_str());
  check(topology != nullptr, "topology: hwloc does not take the description '{}'", description);
  return cores_of(topology.get(), allowed);
}

Placement place_rank(std::span<const Core> cores, const PlacementRequest& request) {
  check(request.threads >= 1 && 0 <= request.rank && request.rank < request.ranks,
        "placement: got rank {} of {} with {} threads", request.rank, request.ranks, request.threads);
  Placement placement;
  const std::vector<int> all = by_hyperthread(cores);
  const auto ranks = static_cast<size_t>(request.ranks), threads = static_cast<size_t>(request.threads);
  if (cores.empty()) {
    placement.reason = "not bound to cores, which are not known";
  } else if (request.cpu_quota > 0.0) {
    placement.reason = fmt::format("not bound: a quota of {:g} CPUs", request.cpu_quota);
  } else if (ranks * threads > all.size()) {
    placement.reason =
        fmt::format("not bound: {} threads are more than {} processors", ranks * threads, all.size());
  } else if (ranks * (threads + 1) <= cores.size()) {
    placement.reason =
        fmt::format("not bound: {} threads leave some of {} cores to others", ranks * threads, cores.size());
  }
  if (!placement.reason.empty()) return placement;

  // All ranks must make the same choice: the first way that gives every thread of every rank a processor of its own.
  const std::function<std::vector<int>(int)> ways[] = {
      [&](int rank) { return by_hyperthread(share_of_node(cores, request.ranks, rank)); },
      [&](int rank) { return by_hyperthread(even_share(cores, request.ranks, rank)); },
      [&](int rank) {
        const auto [begin, end] = part_of(all.size(), request.ranks, rank);
        return std::vector<int>(&all[begin], &all[begin] + (end - begin));
      }};
  for (const auto& way : ways) {
    bool suits = true;
    for (int rank = 0; rank < request.ranks; ++rank) suits = suits && way(rank).size() >= threads;
    if (!suits) continue;
    placement.processors = way(request.rank);
    break;
  }
  placement.of_thread.assign(placement.processors.begin(),
                             placement.processors.begin() + static_cast<std::ptrdiff_t>(threads));
  return placement;
}

std::span<const int> Placement::thread(int thread) const {
  if (!pinned()) return {};
  return std::span(of_thread).subspan(static_cast<size_t>(thread), 1);
}

std::string Placement::text() const {
  if (!pinned()) return reason;
  return (of_thread.size() == 1 ? "pinned to core " : "pinned to cores ") + number_ranges(of_thread);
}

std::string bind_this_thread(std::span<const int> processors) {
  if (processors.empty()) return "";
  const CpuSet set = make_cpu_set();
  for (const int p : processors) CPU_SET_S(p, CPU_ALLOC_SIZE(kMaxProcessors), set.get());
  if (sched_setaffinity(0, CPU_ALLOC_SIZE(kMaxProcessors), set.get()) == 0) return "";
  const int code = errno;
  return fmt::format("cannot bind a thread to {}: {}", number_ranges({processors.begin(), processors.end()}),
                     std::strerror(code));
}

BoundThread::BoundThread(std::span<const int> processors) {
  if (processors.empty()) return;
  std::vector<int> before = processors_of_this_thread();
  refusal_ = bind_this_thread(processors);
  if (refusal_.empty()) before_ = std::move(before);
}

BoundThread::~BoundThread() {
  bind_this_thread(before_);
}

std::string number_ranges(std::vector<int> numbers) {
  std::sort(numbers.begin(), numbers.end());
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i + 1;
    while (end < numbers.size() && numbers[end] == numbers[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", numbers[i]);
    if (end - i > 1) text += fmt::format("-{}", numbers[end - 1]);
    i = end;
  }
  return text;
}

}  // namespace athanor::base

#include "athanor/launch/environment/environment.h"

#include <fmt/core.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/launch/launchers.h"

namespace athanor::launch::environment {
namespace {

constexpr const char* kOwnHint = "'athanor launch' sets these; unset them to train in one process";

struct Believed {
  std::string launcher;
  FoundPlace place;
};

// RANK and WORLD_SIZE, set by any launcher.
std::optional<FoundPlace> find_generic(const Variables& variables) {
  const auto world_size = variables.number("WORLD_SIZE", 1, kMostRanks);
  const auto rank = variables.number("RANK", 0, world_size.value_or(kMostRanks) - 1);
  if (!rank && !world_size) return std::nullopt;
  if (!rank || !world_size)
    throw ConfigError(fmt::format("environment variable {} is set, but {} is not",
                                  rank ? "RANK" : "WORLD_SIZE", rank ? "WORLD_SIZE" : "RANK"),
                      kOwnHint);
  FoundPlace place{.rank = *rank, .world_size = *world_size};
  place.address = variables.text("MASTER_ADDR");  // with its own port, whatever a launcher around it says
  place.variables = fmt::format("RANK {}, WORLD_SIZE {}", *rank, *world_size);
  return place;
}

[[noreturn]] void refuse_conflict(const Believed& one, const Believed& other) {
  throw ConfigError(
      fmt::format("environment: {} says rank {} of {} ({}), {} says rank {} of {} ({})", one.launcher,
                  one.place.rank, one.place.world_size, one.place.variables, other.launcher, other.place.rank,
                  other.place.world_size, other.place.variables),
      "unset those that are not meant; LOCAL_RANK and LOCAL_WORLD_SIZE beside RANK and WORLD_SIZE settle it");
}

// Fills in what `place` lacks from `other`, which is about the same ranks.
void complete(FoundPlace& place, const FoundPlace& other) {
  if (!place.local_world_size) {
    place.local_world_size = other.local_world_size;
    place.local_rank = other.local_rank;
  }
  if (place.address.empty()) {
    place.address = other.address;
    place.port = other.port;
  }
}

// Asks all launchers: the first one that answers becomes `believed` unless it is set; the others must not contradict
// it.
void ask_launchers(const Variables& variables, std::optional<Believed>& believed, bool generic) {
  for (const Launcher& launcher : process_launchers()) {
    // If another launcher runs inside this one, this one's numbers are of nodes, or meaningless.
    const bool around = believed && launcher.outermost && !generic;
    std::optional<FoundPlace> found;
    try {
      found = launcher.find(variables);
    } catch (const ConfigError&) {
      if (!believed) throw;
    }
    if (!found) continue;
    if (!believed) {
      believed = Believed{launcher.name, *found};
      continue;
    }
    const bool same = found->rank == believed->place.rank && found->world_size == believed->place.world_size;
    if (!same && !around) refuse_conflict(*believed, {launcher.name, *found});
    if (same) complete(believed->place, *found);
    if (!same && believed->place.address.empty()) {
      believed->place.address = found->address;
      believed->place.port = found->port;
    }
  }
}

std::optional<Believed> ask_pods(const Variables& variables) {
  if (const auto node = find_kubeflow_node(variables)) {
    if (node->ranks > 1)
      throw ConfigError(
          fmt::format("environment: PET_NPROC_PER_NODE is {}, but 'train' is one rank", node->ranks),
          "athanor launch -- train run.toml starts the ranks of each node");
    FoundPlace place{.rank = node->node,
                     .world_size = node->num_nodes,
                     .local_rank = 0,
                     .local_world_size = 1,
                     .address = node->address,
                     .port = node->port,
                     .variables = node->variables};
    return Believed{"Kubeflow", std::move(place)};
  }
  if (variables.has("JOB_COMPLETION_INDEX"))
    throw ConfigError(
        fmt::format("environment: JOB_COMPLETION_INDEX is {}, but an Indexed Job does not say of how "
                    "many pods",
                    variables.text("JOB_COMPLETION_INDEX")),
        "athanor launch -n N --nodes PODS --master HOST -- train run.toml takes it for the node; "
        "RANK=0 WORLD_SIZE=1 trains alone");
  return std::nullopt;
}

// torchrun's agents themselves listen at MASTER_PORT for as long as the ranks live.
int port_beside_agent(const Variables& variables, int port) {
  return variables.text("TORCHELASTIC_USE_AGENT_STORE") == "True" && port < 65535 ? port + 1 : port;
}

// The agent's socket, with what a worker tells it.
void find_agent(const Variables& variables, RankEnvironment& place) {
  place.control = variables.text("ATHANOR_CONTROL");
  if (place.control.empty()) return;
  place.job = variables.text("ATHANOR_JOB");
  place.worker = variables.number("ATHANOR_WORKER", 0, std::numeric_limits<int>::max()).value_or(-1);
  for (const auto& [name, missing] :
       {std::pair("ATHANOR_JOB", place.job.empty()), std::pair("ATHANOR_WORKER", place.worker < 0)})
    if (missing)
      throw ConfigError(fmt::format("environment variable ATHANOR_CONTROL is set, but {} is not", name),
                        kOwnHint);
}

void check_meeting(const RankEnvironment& place, const std::string& variables) {
  const std::string who = variables.empty() ? "" : fmt::format(" ({})", variables);
  if (!place.by_athanor() && place.master_address.empty())
    throw ConfigError(
        fmt::format("environment: rank {} of {}{} has neither ATHANOR_CONTROL, ATHANOR_SHM_FD nor "
                    "MASTER_ADDR to meet the others",
                    place.rank, place.world_size, who),
        "set MASTER_ADDR and MASTER_PORT to the host of rank 0; 'athanor launch' sets all of these; unset "
        "them to "
        "train in one process");
  if (place.local_world_size == place.world_size) return;
  if (place.master_address.empty())
    throw ConfigError(
        fmt::format("environment: {} of {} ranks are on this host, and there is no MASTER_ADDR to "
                    "meet the others",
                    place.local_world_size, place.world_size),
        kOwnHint);
  if (place.shm_fd >= 0 && (place.world_size % place.local_world_size != 0 ||
                            place.rank % place.local_world_size != place.local_rank))
    throw ConfigError(
        fmt::format(
            "environment: rank {} of {} is LOCAL_RANK {} of {}, expected as many ranks on each host, in "
            "order",
            place.rank, place.world_size, place.local_rank, place.local_world_size),
        kOwnHint);
}

}  // namespace

RankEnvironment parse_rank_environment(const VariableLookup& lookup) {
  const Variables variables(lookup);
  RankEnvironment place;
  std::optional<Believed> believed;
  if (auto generic = find_generic(variables)) believed = Believed{"the environment", std::move(*generic)};
  const bool generic = believed.has_value();
  if (generic) place.shm_fd = variables.number("ATHANOR_SHM_FD", 0, 1 << 20).value_or(-1);
  if (generic) find_agent(variables, place);
  if (generic) place.snapshot_fd = variables.number("ATHANOR_SNAPSHOT_FD", 0, 1 << 20).value_or(-1);
  const bool complete_set =
      generic && (place.by_athanor() || (variables.has("LOCAL_RANK") && variables.has("LOCAL_WORLD_SIZE")));
  if (!complete_set) ask_launchers(variables, believed, generic);
  if (!believed) believed = ask_pods(variables);
  if (!believed) {
    if (variables.number("SLURM_NTASKS", 1, kMostRanks).value_or(1) > 1)
      place.believed = fmt::format("SLURM_NTASKS is {}, but this process is no task of srun: it trains alone",
                                   variables.text("SLURM_NTASKS"));
    return place;
  }
  const FoundPlace& found = believed->place;
  place.launched = true;
  place.mpi = believed->launcher == process_launchers().front().name;
  place.rank = found.rank;
  place.world_size = found.world_size;
  const bool one_host = place.by_athanor() || place.mpi;
  const auto given = [&](const char* name, int least, int most, const std::optional<int>& otherwise) {
    return generic && variables.has(name) ? variables.number(name, least, most) : otherwise;
  };
  place.local_world_size = given("LOCAL_WORLD_SIZE", 1, place.world_size, found.local_world_size)
                               .value_or(one_host ? place.world_size : 1);
  place.local_rank = given("LOCAL_RANK", 0, place.local_world_size - 1, found.local_rank)
                         .value_or(place.rank % place.local_world_size);
  place.master_address = variables.has("MASTER_ADDR") ? variables.text("MASTER_ADDR") : found.address;
  place.master_port =
      port_beside_agent(variables, variables.number("MASTER_PORT", 1, 65535).value_or(found.port));
  if (place.world_size > 1 && !place.by_athanor())
    place.believed =
        fmt::format("rank {} of {}, {} of {} on this host, as {} says: {}", place.rank, place.world_size,
                    place.local_rank, place.local_world_size, believed->launcher, found.variables);
  if (place.world_size == 1 || place.mpi) return place;
  if (!place.by_athanor() && place.master_address.empty() && place.local_world_size == place.world_size &&
      !generic)
    place.master_address = "127.0.0.1";
  check_meeting(place, generic ? "" : found.variables);
  return place;
}

}  // namespace athanor::launch::environment

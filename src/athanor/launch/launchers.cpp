#include "athanor/launch/launchers.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "athanor/base/error.h"
#include "athanor/launch/environment/slurm.h"

namespace athanor::launch {
namespace {

constexpr const char* kByHandHint =
    "set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each process";

// A launcher whose variables are numbers and nothing else.
struct Names {
  const char *rank, *size, *local_rank, *local_size;  // the last two may be null
};

std::string list_set(const Variables& variables, std::initializer_list<const char*> names) {
  std::string text;
  for (const char* name : names)
    if (variables.has(name))
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, variables.text(name));
  return text;
}

std::optional<FoundPlace> find_by(const Names& names, const Variables& variables) {
  if (!variables.has(names.rank) && !variables.has(names.size)) return std::nullopt;
  for (const auto& [set, missing] : {std::pair(names.rank, names.size), std::pair(names.size, names.rank)})
    if (!variables.has(missing))
      throw ConfigError(
          fmt::format("environment: {} is {}, but {} is not set", set, variables.text(set), missing),
          kByHandHint);
  FoundPlace place;
  place.world_size = variables.number(names.size, 1, kMostRanks).value_or(1);
  place.rank = variables.number(names.rank, 0, place.world_size - 1).value_or(0);
  if (names.local_size != nullptr)
    place.local_world_size = variables.number(names.local_size, 1, place.world_size);
  if (names.local_rank != nullptr)
    place.local_rank =
        variables.number(names.local_rank, 0, place.local_world_size.value_or(place.world_size) - 1);
  place.variables = list_set(variables, {names.rank, names.size, names.local_rank, names.local_size});
  return place;
}

std::optional<FoundPlace> find_open_mpi(const Variables& variables) {
  return find_by({"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                  "OMPI_COMM_WORLD_LOCAL_SIZE"},
                 variables);
}

std::optional<FoundPlace> find_pmi(const Variables& variables) {
  return find_by({"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}, variables);
}

std::optional<FoundPlace> find_lsf(const Variables& variables) {
  return find_by(
      {"JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_LOCAL_RANK", "JSM_NAMESPACE_LOCAL_SIZE"},
      variables);
}

std::optional<FoundPlace> find_flux(const Variables& variables) {
  auto place = find_by({"FLUX_TASK_RANK", "FLUX_JOB_SIZE", "FLUX_TASK_LOCAL_ID", nullptr}, variables);
  if (!place) return place;
  // Flux spreads tasks evenly, and says how many nodes there are.
  if (const auto nodes = variables.number("FLUX_JOB_NNODES", 1, place->world_size)) {
    place->local_world_size = (place->world_size + *nodes - 1) / *nodes;
    place->variables += fmt::format(", FLUX_JOB_NNODES {}", *nodes);
  }
  return place;
}

std::optional<FoundPlace> find_slurm(const Variables& variables) {
  const auto step = slurm_step(variables);
  const char* const pmix = variables.has("PMIX_RANK") ? "PMIX_RANK" : nullptr;
  if (!step) {
    if (pmix != nullptr && variables.number(pmix, 0, kMostRanks).value_or(0) > 0)
      throw ConfigError(fmt::format("environment: PMIX_RANK is {}, but nothing says of how many ranks",
                                    variables.text(pmix)),
                        kByHandHint);
    return std::nullopt;
  }
  FoundPlace place{.rank = step->task,
                   .world_size = step->num_tasks,
                   .local_rank = step->local_task,
                   .local_world_size = step->local_tasks,
                   .address = slurm_master_address(variables, *step),
                   .port = slurm_master_port(variables)};
  if (pmix != nullptr) place.rank = variables.number(pmix, 0, place.world_size - 1).value_or(0);
  place.variables =
      list_set(variables, {pmix != nullptr ? pmix : "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                           "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NODELIST"});
  return place;
}

// Ranks without a size: PALS has it in PMI_SIZE only.
std::optional<FoundPlace> find_pals(const Variables& variables) {
  if (!variables.has("PALS_RANKID")) return std::nullopt;
  throw ConfigError(
      fmt::format("environment: PALS_RANKID is {}, but PMI_SIZE, which says of how many ranks, is not set",
                  variables.text("PALS_RANKID")),
      kByHandHint);
}

constexpr std::array kLaunchers = {
    Launcher{"Open MPI", find_open_mpi, false}, Launcher{"PMI (MPICH, Intel MPI, PALS)", find_pmi, false},
    Launcher{"Flux", find_flux, false},         Launcher{"LSF", find_lsf, false},
    Launcher{"PALS", find_pals, false},         Launcher{"Slurm", find_slurm, true},
};

}  // namespace

std::span<const Launcher> process_launchers() {
  return kLaunchers;
}

std::optional<FoundNode> find_kubeflow_node(const Variables& variables) {
  if (!variables.has("PET_NNODES") && !variables.has("PET_NODE_RANK")) return std::nullopt;
  FoundNode found;
  std::string nodes = variables.has("PET_NNODES") ? variables.text("PET_NNODES") : "1";
  if (const size_t colon = nodes.find(':'); colon != std::string::npos) {
    if (nodes.substr(0, colon) != nodes.substr(colon + 1))
      throw ConfigError(
          fmt::format("environment variable PET_NNODES: got \"{}\", expected one number of nodes", nodes),
          "a number of nodes that changes is not there yet: give numNodes, not a range");
    nodes.resize(colon);
  }
  const Variables one([&](const char*) { return nodes.c_str(); });
  found.num_nodes = one.number("PET_NNODES", 1, kMostRanks).value_or(1);
  if (found.num_nodes > 1 && !variables.has("PET_NODE_RANK"))
    throw ConfigError("environment: PET_NNODES is set, but PET_NODE_RANK is not", kByHandHint);
  found.node = variables.number("PET_NODE_RANK", 0, found.num_nodes - 1).value_or(0);
  const std::string ranks = variables.text("PET_NPROC_PER_NODE");
  const bool counted = !ranks.empty() && ranks != "auto" && ranks != "cpu" && ranks != "gpu";
  if (counted) found.ranks = variables.number("PET_NPROC_PER_NODE", 1, 1024).value_or(0);
  found.address = variables.text("PET_MASTER_ADDR");
  found.port = variables.number("PET_MASTER_PORT", 1, 65535).value_or(found.port);
  found.variables = list_set(
      variables, {"PET_NODE_RANK", "PET_NNODES", "PET_NPROC_PER_NODE", "PET_MASTER_ADDR", "PET_MASTER_PORT"});
  return found;
}

}  // namespace athanor::launch

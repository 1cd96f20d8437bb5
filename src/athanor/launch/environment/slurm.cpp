#include "athanor/launch/environment/slurm.h"

#include <fmt/core.h>

#include <charconv>
#include <numeric>

#include "athanor/base/error.h"

namespace athanor::launch::environment {
namespace {

constexpr const char* kStepHint =
    "srun sets these for each task; 'athanor launch' or RANK, WORLD_SIZE and MASTER_ADDR do without";

// The step's own, else the job's.
const char* first_set(const Variables& variables, std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (variables.has(name)) return name;
  return nullptr;
}

std::optional<int> leading_number(std::string_view& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 1) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

bool skip(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

}  // namespace

std::vector<int> parse_tasks_per_node(std::string_view text, const char* name) {
  std::vector<int> tasks;
  std::string_view rest = text;
  do {
    const auto count = leading_number(rest);
    std::optional<int> nodes = 1;
    if (skip(rest, "(x")) {
      nodes = leading_number(rest);
      if (!skip(rest, ")")) nodes = std::nullopt;
    }
    if (!count || !nodes || *nodes > kMostRanks || (!rest.empty() && rest[0] != ','))
      throw ConfigError(fmt::format(
          "environment variable {}: got \"{}\", expected tasks of each node: 2(x3),1", name, text));
    tasks.insert(tasks.end(), static_cast<size_t>(*nodes), *count);
  } while (skip(rest, ",") && tasks.size() < static_cast<size_t>(kMostRanks));
  return tasks;
}

std::string first_host(std::string_view list, const char* name) {
  std::string host;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const size_t close = list.find(']', i);
    const size_t end = close == std::string_view::npos ? close : list.find_first_of(",-]", i);
    if (end == std::string_view::npos || end == i + 1) {
      host.clear();
      break;
    }
    host += list.substr(i + 1, end - i - 1);
    i = close;
  }
  if (host.empty() || host.find(']') != std::string::npos)
    throw ConfigError(
        fmt::format("environment variable {}: got \"{}\", expected a list of hosts: node[01-03,7],other",
                    name, list),
        "MASTER_ADDR says where rank 0 is met");
  return host;
}

std::optional<SlurmStep> slurm_step(const Variables& variables) {
  const bool in_step = first_set(variables, {"SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NUM_TASKS",
                                             "SLURM_STEP_NODELIST", "SLURM_STEP_TASKS_PER_NODE"}) != nullptr;
  const auto task = variables.number("SLURM_PROCID", 0, kMostRanks);
  if (!in_step) {
    if (task.value_or(0) > 0)
      throw ConfigError(
          fmt::format(
              "environment: SLURM_PROCID is {}, but SLURM_STEP_ID and SLURM_STEP_NUM_TASKS, which say of how "
              "many, are not set",
              *task),
          kStepHint);
    return std::nullopt;
  }
  const char* const size_name =
      first_set(variables, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"});
  if (!task || size_name == nullptr) {
    if (!task && size_name == nullptr) return std::nullopt;
    throw ConfigError(fmt::format("environment: {} is set, but {} is not", task ? "SLURM_PROCID" : size_name,
                                  task ? "SLURM_STEP_NUM_TASKS" : "SLURM_PROCID"),
                      kStepHint);
  }
  SlurmStep step;
  step.num_tasks = variables.number(size_name, 1, kMostRanks).value_or(1);
  if (step.num_tasks == 1) return std::nullopt;
  if (variables.number("SLURM_HET_SIZE", 1, kMostRanks).value_or(1) > 1)
    throw ConfigError(
        "environment: SLURM_HET_SIZE: got a step of several components, expected one",
        "set RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each task");
  step.task = variables.number("SLURM_PROCID", 0, step.num_tasks - 1).value_or(0);
  const char* const nodes_name = first_set(variables, {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"});
  const char* const list_name = first_set(variables, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  std::vector<int> of_node;
  if (list_name != nullptr) of_node = parse_tasks_per_node(variables.text(list_name), list_name);
  step.num_nodes = nodes_name != nullptr ? variables.number(nodes_name, 1, kMostRanks).value_or(1)
                   : of_node.empty()     ? 1
                                         : static_cast<int>(of_node.size());
  step.node = variables.number("SLURM_NODEID", 0, step.num_nodes - 1).value_or(0);
  if (of_node.empty()) of_node.assign(1, step.num_nodes == 1 ? step.num_tasks : 1);
  if (step.num_nodes > 1 && list_name == nullptr)
    throw ConfigError(
        "environment: SLURM_STEP_TASKS_PER_NODE is not set, which says how many tasks share a node",
        kStepHint);
  const int sum = std::accumulate(of_node.begin(), of_node.end(), 0);
  if (static_cast<int>(of_node.size()) != step.num_nodes || sum != step.num_tasks)
    throw ConfigError(fmt::format("environment: {} is \"{}\", expected {} tasks on {} nodes as {} says",
                                  list_name == nullptr ? "SLURM_NTASKS" : list_name,
                                  variables.text(list_name == nullptr ? "SLURM_NTASKS" : list_name),
                                  step.num_tasks, step.num_nodes, size_name),
                      kStepHint);
  step.local_tasks = of_node[static_cast<size_t>(step.node)];
  step.local_task =
      variables.number("SLURM_LOCALID", 0, step.local_tasks - 1).value_or(step.task % step.local_tasks);
  return step;
}

std::string slurm_master_address(const Variables& variables, const SlurmStep& step) {
  if (step.num_nodes == 1) return "127.0.0.1";
  const char* const name =
      first_set(variables, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"});
  return name == nullptr ? "" : first_host(variables.text(name), name);
}

int slurm_master_port(const Variables& variables) {
  constexpr int kFirst = 15000, kCount = 15000;  // below those that the kernel hands out by itself
  const auto job = variables.number("SLURM_JOB_ID", 0, 2000000000);
  if (!job) return 29500;
  const char* const name = first_set(variables, {"SLURM_STEP_ID", "SLURM_STEPID"});
  const int64_t step = name == nullptr ? 0 : variables.number(name, 0, 2000000000).value_or(0);
  return kFirst + static_cast<int>((int64_t{7} * *job + step) % kCount);
}

}  // namespace athanor::launch::environment

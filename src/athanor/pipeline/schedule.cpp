#include "athanor/pipeline/schedule.h"

#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/base/nearest.h"
#include "athanor/pipeline/generators.h"

namespace athanor::pipeline {
namespace {

struct Known {
  const char* name;
  int fewest, most;  // stages per rank; most = 0: any number
  int standard;
  Schedule (*make)(int p, int m, int v);
  std::optional<double> (*bubble)(int p, int m, int v, const StageCost& t);
};
using T = const StageCost&;

const std::vector<Known>& known_schedules() {
  static const std::vector<Known> all = {
      {"gpipe", 1, 1, 1, [](int p, int m, int) { return gpipe(p, m); },
       [](int p, int, int, T t) { return gpipe_bubble(p, t); }},
      {"1f1b", 1, 1, 1, [](int p, int m, int) { return one_f_one_b(p, m); },
       [](int p, int, int, T t) { return one_f_one_b_bubble(p, t); }},
      {"interleaved", 2, 0, 2, interleaved,
       [](int p, int m, int, T t) { return interleaved_bubble(p, m, t); }},
      {"bfs", 1, 0, 1, breadth_first, breadth_first_bubble},
      {"zb-h1", 1, 1, 1, [](int p, int m, int) { return zb_h1(p, m); },
       [](int p, int m, int, T t) { return zb_h1_bubble(p, m, t); }},
      {"zb-v", 2, 2, 2, [](int p, int m, int) { return zb_v(p, m); },
       [](int p, int m, int, T t) { return zb_v_bubble(p, m, t); }},
      {"dualpipe-v", 2, 2, 2, [](int p, int m, int) { return dualpipe_v(p, m); },
       [](int p, int m, int, T t) { return dualpipe_v_bubble(p, m, t); }},
  };
  return all;
}

const Known& find_schedule(const std::string& name) {
  for (const Known& known : known_schedules())
    if (known.name == name) return known;
  const std::string nearest = nearest_name(name, schedule_names());
  std::string names;
  for (const std::string& each : schedule_names()) names += (names.empty() ? "" : ", ") + each;
  throw ConfigError(fmt::format("schedule: got '{}', expected one of {}", printable(name), names),
                    nearest.empty() ? "" : "did you mean '" + nearest + "'?");
}

template <typename PlaceOf>
std::vector<int> place(int ranks, int virtual_stages, PlaceOf place_of) {
  std::vector<int> placement;
  for (int stage = 0; stage < ranks * virtual_stages; ++stage) placement.push_back(place_of(stage));
  return placement;
}

}  // namespace

std::string str(const Action& action) {
  return std::to_string(action.stage) + static_cast<char>(action.act) + std::to_string(action.micro_batch);
}

std::vector<int> Schedule::stages_of(int rank) const {
  std::vector<int> stages;
  for (int stage = 0; stage < num_stages(); ++stage)
    if (rank_of_stage[static_cast<size_t>(stage)] == rank) stages.push_back(stage);
  return stages;
}

std::vector<int> loop_placement(int ranks, int virtual_stages) {
  return place(ranks, virtual_stages, [&](int stage) { return stage % ranks; });
}
std::vector<int> v_placement(int ranks, int virtual_stages) {
  return place(ranks, virtual_stages,
               [&](int stage) { return stage / ranks % 2 == 0 ? stage % ranks : ranks - 1 - stage % ranks; });
}
std::vector<int> block_placement(int ranks, int virtual_stages) {
  return place(ranks, virtual_stages, [&](int stage) { return stage / virtual_stages; });
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Known& known : known_schedules()) list.emplace_back(known.name);
    return list;
  }();
  return names;
}

int default_virtual_stages(const std::string& name) {
  return find_schedule(name).standard;
}

void check_shape(const ScheduleShape& shape) {
  const auto at_least = [](const char* what, int got, int least) {
    if (got < least)
      throw ConfigError(fmt::format("schedule: got {} {}, expected at least {}", got, what, least));
  };
  at_least("ranks", shape.ranks, 1);
  at_least("micro-batches", shape.micro_batches, 1);
  at_least("stages of a rank", shape.virtual_stages, 1);
  // A schedule that is made for more micro-batches and then shortened is at most three times as long.
  const double cells = static_cast<double>(shape.ranks) * shape.virtual_stages *
                       std::max<double>(shape.micro_batches, 2.0 * shape.ranks);
  if (cells > static_cast<double>(kMaxStageMicroBatches))
    throw ConfigError(
        fmt::format("schedule: got {} stages and {} micro-batches, expected a product of at most {}",
                    int64_t{shape.ranks} * shape.virtual_stages, shape.micro_batches, kMaxStageMicroBatches));
}

Schedule make_schedule(const std::string& name, ScheduleShape shape) {
  const Known& known = find_schedule(name);
  if (shape.virtual_stages == 0) shape.virtual_stages = known.standard;
  check_shape(shape);
  const int v = shape.virtual_stages;
  if (v < known.fewest || (known.most > 0 && v > known.most))
    throw ConfigError(fmt::format("schedule '{}': got {} stages of a rank, expected {}{}", name, v,
                                  known.most > 0 ? "" : "at least ", known.fewest),
                      known.most == 1 ? "interleaved and bfs take any number of stages of a rank" : "");
  return known.make(shape.ranks, shape.micro_batches, v);
}

std::optional<double> closed_form_bubble(const std::string& name, ScheduleShape shape, const StageCost& t) {
  for (const Known& known : known_schedules())
    if (known.name == name)
      return known.bubble(shape.ranks, shape.micro_batches,
                          shape.virtual_stages == 0 ? known.standard : shape.virtual_stages, t);
  return std::nullopt;
}

Schedule without_surplus(Schedule schedule, int micro_batches) {
  schedule.micro_batches = micro_batches;
  for (auto& actions : schedule.ranks)
    std::erase_if(actions, [&](const Action& action) { return action.micro_batch >= micro_batches; });
  return schedule;
}

}  // namespace athanor::pipeline

// [[phase]]: a part of a run with a length and settings of its own (phases.h).
//
//   config.phases = {{.name = "short", .steps = 300},
//                    {.name = "long", .steps = 100, .settings = {{"data.seq_len", int64_t{1024}}}}};
//
// A setting is the value of a key of another table: fields.h has the keys and their types. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "athanor/config/data_config.h"
#include "athanor/config/train_config.h"

namespace athanor::config {

using SettingValue =
    std::variant<std::string, int64_t, uint64_t, double, bool, std::vector<double>, std::vector<int64_t>,
                 std::vector<std::string>, std::vector<ChannelConfig>, std::vector<OptimizerGroupConfig>>;

struct Phase {
  std::string name = {};
  int64_t steps = 0;
  std::map<std::string, SettingValue, std::less<>> settings = {};  // "data.seq_len" -> 1024
  std::string schedule_csv = {};  // of a parallel.schedule of its own, as in ParallelConfig
  bool operator==(const Phase&) const = default;
};

}  // namespace athanor::config

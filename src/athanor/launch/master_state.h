// What a Master (master.h) knows of a process, of a rank's place in the next world, and of what has gone wrong. Thread rule:
// plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "athanor/control/messages.h"
#include "athanor/launch/master_values.h"

namespace athanor::launch {

struct MasterProcess {
  enum class Stage { starting, waiting, running, leaving, ended };
  int rank = 0;
  Stage stage = Stage::starting;
  bool says_hello = false, told_stop = false, told_end = false, tokenizes = false;
  int64_t step = -1;  // the last that it has committed; -1: none is known
  int64_t kill_at_ns = kNeverNs;
  bool harmless = false;  // however it ends
  std::optional<control::Farewell> farewell{};
  RankEnd end{};
  bool lives() const { return stage != Stage::ended; }
};

struct MasterSeat {
  int worker = -1;
  int64_t start_at_ns = kNeverNs;
};

// From the first failure, request of the operator or change of size, until the next generation has begun.
struct MasterIncident {
  int64_t at_ns = 0, step = -1;
  bool counted = false;   // it took a restart; what the operator wants takes none
  bool is_asked = false;  // by the operator
  std::string why{};
};

}  // namespace athanor::launch

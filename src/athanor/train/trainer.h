// A whole training run, as one rank sees it: data, model, resume, steps, validation, checkpoints, metrics.
//
//   auto groups = ...; TrainIo io{.env = system_env(), .console = rank == 0 ? &console : nullptr};
//   const TrainReport report = train(config, group, io);
//
// Every rank of the group calls it with the same config. Rank 0 writes metrics, events, reports and talks to
// the console. A run whose folder holds a valid checkpoint is continued from the newest one, bit for bit (law
// 5). `stop` counts requests to stop (Ctrl-C): the ranks agree at the end of a step, save and return. Errors:
// ConfigError for settings, Error for data and files, Recoverable from the group. Thread rule: one thread per
// rank.
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/comm/group.h"
#include "athanor/config/config.h"
#include "athanor/observe/console.h"

namespace athanor {

struct TrainIo {
  Env& env;
  Console* console = nullptr;  // rank 0 only
  const std::atomic<int>* stop = nullptr;
  std::string command_line;  // for env.json
  int ranks_of_host = 1;     // they share its processors
};

struct TrainReport {
  std::string run_folder;
  std::string status = "running";  // running, interrupted, finished
  bool interrupted = false;
  int64_t ranks = 1, params = 0, steps = 0, tokens = 0;
  int64_t resumed_step = 0;  // 0: started afresh
  double train_loss_last = 0.0;
  double valid_loss_first = 0.0, valid_loss_last = 0.0;  // NaN where nothing is held out
  ChannelValues channel_loss_first, channel_loss_last;   // held out
  double tokens_per_second = 0.0, mfu = 0.0;             // medians over the steps of this process
  double seconds = 0.0;                                  // of this process, from its start
  double first_step_seconds = 0.0;  // from the start of the process to the end of its first step
  int64_t peak_bytes = 0, planned_bytes = 0, resident_bytes = 0;
  std::string digest;  // of the final checkpoint
};

TrainReport train(const Config& config, Group& group, const TrainIo& io);

// One JSON document; also runs/NAME/report.json.
std::string to_json(const TrainReport& report);
// The held-out losses before the first update, as an earlier part of the run reported them.
void restore_first_losses(const std::string& json, TrainReport& report);

}  // namespace athanor

// A whole training run, as one rank sees it: data, model, resume, steps, validation, checkpoints.
//
//   TrainIo io{.env = system_env(), .console = rank == 0 ? &console : nullptr};
//   const TrainReport report = train(config, world, io);
//
// Every rank of the world calls it with the same config, whose section [parallel] says how they share the work. A run
// whose folder holds a valid checkpoint is continued from the newest one, bit for bit (law 5). `stop` is not zero once
// somebody asked for an end (the number of a signal): the ranks agree at the end of a step, save and return a report whose
// status is "interrupted"; an evaluation or tokenizing is given up for it. A save that fails is said and tried again (after
// 1, 2, 4 ... steps, at the next due one at the latest); only the last one, at the end or at an interrupt, is an IoError.
// Outputs for people never end a run (train/recorder.h). Errors: ConfigError for settings, Error for data and files,
// Recoverable from the group; a checkpoint that exists is never touched by any of them. Thread rule: one thread per rank.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/cpu.h"
#include "athanor/base/file.h"
#include "athanor/base/topology.h"
#include "athanor/base/trace.h"
#include "athanor/comm/options.h"
#include "athanor/comm/world.h"
#include "athanor/config/config.h"
#include "athanor/data/tokenize.h"
#include "athanor/kernels/peak.h"
#include "athanor/observe/console.h"
#include "athanor/observe/profile.h"
#include "athanor/train/report.h"

namespace athanor {

struct TrainIo {
  Env& env;
  Console* console = nullptr;  // rank 0 only
  const std::atomic<int>* stop = nullptr;
  std::vector<std::string> command_line = {};  // for env.json
  int ranks_of_host = 1;
  int rank_of_host = -1;             // among them; -1: they are consecutive, on every host as many
  int ranks_of_processors = 1;       // those that share this rank's (processor_share.h)
  Placement placement = {};          // of the threads_of_rank(); the default: anywhere
  Trace* trace = nullptr;            // spans of the first steps, written to trace/rank*.json; may be null
  Profiler* profiler = nullptr;      // what the steps after the first of this process took; may be null
  TokenizeProgress tokenizing = {};  // called while text is tokenized on first use; may be empty
  std::string cuda_plugin = "athanor_cuda.so";  // the file to load where train.device is "cuda"
  std::string nccl_module = "athanor_nccl.so";  // and with several ranks this one, too
  GroupOptions group_options = {};              // of the groups between devices
  Isa highest_isa = best_isa();  // that this rank offers to the others, where train.isa is "auto"
  // What rates, seconds and MFU are measured by; a test scripts them.
  std::function<double()> clock = now_seconds;
  std::function<double(Queue&, Dtype)> peak_flops =
      measure_peak_flops;  // per second, of all threads of a rank
};

// As many as train.threads says, or this rank's share of the usable processors.
int threads_of_rank(const Config& config, int ranks_of_processors);

TrainReport train(const Config& config, World& world, const TrainIo& io);

}  // namespace athanor

// A whole training run, as one rank sees it: data, model, resume, steps, validation, checkpoints.
//
//   TrainIo io{.env = system_env(), .console = rank == 0 ? &console : nullptr};
//   const TrainReport report = train(config, world, io);
//
// The phases of the config follow one another (config/phases.h), each in a segment of its own (run/segment.h).
//
// Every rank of the world calls train() with the same config, whose section [parallel] sets the layout. A run whose
// folder holds a valid checkpoint is resumed from the newest one, bit for bit (law 5).
//
// `stop` becomes non-zero (a signal's number) to request an end. The ranks agree at the end of a step, save, and return
// a report with status "interrupted"; an evaluation or tokenization in progress is abandoned. A save that fails is
// reported and tried again (after 1, 2, 4 ... steps, at the next due one at the latest). Only a failure of the last
// save, at the end or at an interrupt, is an IoError. Outputs for people never end a run (run/recorder.h).
//
// Errors: ConfigError for settings, Error for data and files, Recoverable from the group; none of them touches an
// existing checkpoint. Thread rule: one thread per rank.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/base/clock.h"
#include "athanor/base/cpu.h"
#include "athanor/base/file.h"
#include "athanor/base/host_memory.h"
#include "athanor/base/topology.h"
#include "athanor/base/trace.h"
#include "athanor/comm/options.h"
#include "athanor/comm/world.h"
#include "athanor/config/config.h"
#include "athanor/data/tokenize.h"
#include "athanor/engine/decisions.h"
#include "athanor/kernels/peak.h"
#include "athanor/observe/console.h"
#include "athanor/observe/profile.h"
#include "athanor/run/rendezvous.h"
#include "athanor/run/report.h"

namespace athanor::run {

struct TrainIo {
  Env& env;
  Console* console = nullptr;  // rank 0 only
  const std::atomic<int>* stop = nullptr;
  std::vector<std::string> command_line = {};  // for env.json
  int ranks_of_host = 1;
  int rank_of_host = -1;  // local rank; -1: consecutive ranks, equally many on every host
  // Shared memory for the snapshots of this rank, held by whoever outlives it (base/shared_memory.h); -1: its own.
  int snapshot_fd = -1;
  bool is_launched =
      false;  // a launcher writes report.json and events.jsonl, and this process report.run.json
  int ranks_of_processors = 1;  // ranks on this rank's processors (run/processor_share.h)
  // A chain of phases made by hand: this run trains one phase of its config, from a checkpoint (or the newest of a run),
  // optimizer included. Both empty: all phases, from the start.
  std::string from = {}, phase = {};
  // Decisions to follow: those of steps that the run has done must be the run's own, else ConfigError.
  std::optional<std::vector<Decision>> decisions = {};
  Placement placement = {};                          // of the threads_of_rank(); the default: anywhere
  std::function<Placement(int threads)> place = {};  // of another number of them; empty: anywhere
  Trace* trace = nullptr;            // spans of the first steps, written to trace/rank*.json; may be null
  Profiler* profiler = nullptr;      // measures all steps of this process but the first; may be null
  int standard_input = 0;            // the descriptor of a channel whose path is "-"
  TokenizeProgress tokenizing = {};  // called while text is tokenized on first use; may be empty
  std::string cuda_plugin = "athanor_cuda.so";  // the file to load where train.device is "cuda"
  std::string nccl_module = "athanor_nccl.so";  // and with several ranks this one, too
  GroupOptions group_options = {};              // of the groups between devices
  Isa highest_isa = best_isa();  // that this rank offers to the others, where train.isa is "auto"
  // Put in front of each world, for faults on purpose; empty: nothing is.
  std::function<std::unique_ptr<World>(World&)> in_front = {};
  // What rates, seconds and MFU are measured by; a test scripts them.
  std::function<double()> clock = now_seconds;
  std::function<uint64_t()> available_memory = [] { return available_memory_bytes(); };
  std::function<double(Queue&, Dtype)> peak_flops =
      measure_peak_flops;  // per second, of all threads of a rank
};

// train.threads, or by default this rank's share of the usable processors.
int threads_of_rank(const Config& config, int ranks_of_processors);

TrainReport train(const Config& config, World& world, const TrainIo& io);
// A run that survives the failure of a group where the rendezvous has another world: it goes on after the last step that
// all ranks have done, in the same process.
TrainReport train(const Config& config, Rendezvous& rendezvous, const TrainIo& io);

}  // namespace athanor::run

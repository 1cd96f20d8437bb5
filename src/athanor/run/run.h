// A Run lives as long as the process: config, data, memory, the state of training, and what it tells people. It is cut
// into segments (segment.h): each is one world, one layout and one engine.
//
//   Run run(config, world, io);
//   run.resolve();                        // the config, by the tokenizer
//   Segment segment(run, world);
//   run.open_data();
//   run.open(segment.all());              // the folder, its lock, the state to go on from
//   run.write_report("running");
//
// Errors: ConfigError for settings, Error for data and files, Recoverable from the group. Thread rule: one thread per
// rank.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/data/dataset.h"
#include "athanor/engine/state.h"
#include "athanor/run/recorder.h"
#include "athanor/run/run_folder.h"
#include "athanor/run/run_keeper.h"
#include "athanor/run/samples.h"
#include "athanor/run/save_schedule.h"
#include "athanor/run/trainer.h"

namespace athanor::run {

struct Run {
  Run(const Config& config, World& world, const TrainIo& io);

  void resolve();           // opens the tokenizer; the config is not changed after it
  void open_data();         // tokenizes text that is new
  void open(Group& group);  // takes the folder; the state is a checkpoint's, or a fresh one. Collective
  void bind_thread();       // after open_data(): threads that prepare data would inherit the binding
  void say_doubts();
  void renew_report(double tokens_per_second);
  void write_report(const char* status);
  void write_trace(int rank);
  // After an error: records it, and closes what the console shows. Throws nothing.
  void failed(const std::string& reason) noexcept;

  Config config;
  TrainIo io;
  RunFolder folder;
  RunKeeper keeper;
  const int threads;
  ThreadPool pool;
  std::optional<BoundThread> bound;  // the thread that trains, as the pool's first
  std::unique_ptr<Queue> queue;
  Arena arena;
  Dataset data;
  std::optional<Recorder> recorder;
  std::optional<SampleWriter> samples;
  TrainState state;
  TrainReport report;
  SaveSchedule saves;
  int64_t saved_step = -1;
  std::vector<double> rates;                       // tokens per second of the steps of this process
  double flops_per_token = 0.0, peak_flops = 0.0;  // the peak: of all ranks together

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
};

}  // namespace athanor::run

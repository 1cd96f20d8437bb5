// A Segment of a run: one world, one layout and the engine that trains in it, from a commit point to another one.
//
//   Segment segment(run, world);                       // layout and groups
//   segment.build(plan.layout.recompute);              // engine, values and optimizer state
//   const Segment::End end = segment.train();
//
// A segment starts from run.state and the values that go with it, and is bitwise what a fresh process started from them
// would be. Errors: those of the engine and the group; NotFinite naming step and tensor. Thread rule: one thread per rank.
#pragma once

#include <memory>
#include <optional>

#include "athanor/engine/setup.h"
#include "athanor/run/run.h"
#include "athanor/run/step_metrics.h"

namespace athanor::run {

// Whether any rank was asked to stop; the same answer on all ranks. Collective.
bool is_asked_to_stop(const TrainIo& io, Group& group);

class Segment {
 public:
  enum class End { done, interrupted };

  Segment(Run& run, World& world);
  const Layout& layout() const { return layout_; }
  const Training& engine() const { return *training_; }
  Group& all() const { return group_; }

  void build(const std::string& recompute);
  // Evaluates before the first step, where the config asks for it.
  void evaluate_first();
  End train();

 private:
  bool serves() const { return layout_.is_server(group_.rank()); }
  Group& peers() { return *groups_.role; }  // all workers, or all servers
  void load_values();
  void check_state(const std::string& what);
  void check_step(const StepResult& result, const StepMetrics& metrics);
  void measure_peak();
  bool validate_now(int64_t max_tokens, StepMetrics* metrics);  // false: given up, there is no result
  void write_samples();
  void save(bool is_last);
  End serve();

  Run& run_;
  std::unique_ptr<World> device_world_;  // groups between devices; null on the CPU
  World& world_;
  Group& group_;  // all ranks
  Layout layout_;
  Groups groups_;
  std::optional<PushLog> pushes_;  // on a server, unless consistency is "sync"
  std::unique_ptr<Training> training_;
};

}  // namespace athanor::run

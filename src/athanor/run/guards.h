// Guards over the course of training ([guard], docs/guards.md): spikes of a channel's loss, alarms on the norm of the gradient
// and on the size of updates. Each warns, or has the last steps undone and their batches left out.
//
//   Guards guards(config.guard);
//   const Guards::Verdict verdict = guards.after({.step = 71, .channel_loss = {{"en", 9.1}}, .grad_norm = 3.0, .lr = 1e-3}, 1);
//   for (const std::string& line : verdict.warnings) recorder.warning(line);
//   if (verdict.first_undone) go_back_to(*verdict.first_undone - 1);      // and leave out the batches of steps 71 ... 71
//
// All ranks give the same values and come to the same verdict. What a guard has seen outlives a world: text() gives it to
// ranks that join. A guard has seen enough after RollingSpread::kEnough steps; it warns once, and again only after as many
// steps without an alarm. Errors: Error for a text that is none. Thread rule: a plain value; one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/engine/decisions.h"
#include "athanor/observe/metrics.h"
#include "athanor/run/rolling_spread.h"

namespace athanor::run {

// Of one step.
struct StepSigns {
  int64_t step = 0;
  ChannelValues channel_loss = {};
  double grad_norm = 0.0;
  double lr = 0.0;
  std::optional<double> last_update = {};  // of the step before: StepResult::last_update
};

class Guards {
 public:
  explicit Guards(const GuardConfig& config) : config_(config) {}
  void set(const GuardConfig& config) { config_ = config; }

  struct Verdict {
    std::vector<std::string> warnings = {};
    ChannelValues alarms = {};                 // what was far above, for the metrics
    std::optional<int64_t> first_undone = {};  // of the steps whose end is this one
    std::string why = {};
  };
  // `first_step`: no step before it can be undone.
  Verdict after(const StepSigns& signs, int64_t first_step);

  // A step was not finite and is run again: it may be once.
  void repeat(int64_t step) { repeated_step_ = step; }
  bool is_repeated(int64_t step) const { return repeated_step_ == step; }

  // Guard state_hash (engine/replicas/state_hashes.h): the newest step on whose state the replicas agreed, and how often they did not.
  int64_t agreed_step = -1, num_disagreements = 0;

  // The run goes on after an earlier step, or in another phase.
  void forget_after(int64_t step);
  void forget_all() { series_.clear(); }

  // The decisions of the run, past and future, once a guard has taken one.
  std::optional<std::vector<Decision>> decisions = {};

  // All that a guard knows, as text, and how much that is.
  std::string text() const;
  void take(const std::string& text);
  int64_t num_values() const;

 private:
  struct Series {
    RollingSpread spread;
    int64_t last_alarm = -1;  // step
  };
  struct Sign;
  void judge(const Sign& sign, const StepSigns& signs, int64_t first_step, Verdict& verdict);

  GuardConfig config_;
  std::map<std::string, Series> series_;  // "loss en", "grad_norm", "update_size"
  int64_t num_rollbacks_ = 0, repeated_step_ = -1;
  double last_lr_ = 0.0;
};

}  // namespace athanor::run

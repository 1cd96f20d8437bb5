// The table of law 1: each row is a config in a layout, and what its training must equal, to the bit or nearly.
//
//   std::vector<LayoutCase> pipelines() {
//     LayoutTable table;
//     for (const char* family : {"llama", "gpt2"})
//       table.as_one(family, tiny(family), {.dp = 2, .pp = 2, .schedule = "zb-v"});   // one process, to the bit
//     return table.take();
//   }
//   INSTANTIATE_TEST_SUITE_P(Pipelines, LayoutTest, testing::ValuesIn(pipelines()), layout_case_name);
//
// Rows of ResumeTest go on from a checkpoint, those of PlanTest have a memory plan; both say no bit or byte less.
//
// Rows of one reference stand together: a process computes it once (run_once). What is not "equals another run" is no
// row and has a test of its own. Thread rule: one thread.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "train/layout_run.h"

namespace athanor::tests {

// What a layout is. Pointers that are null leave the config's value alone.
struct Axes {
  int64_t dp = 1, tp = 1, pp = 1, cp = 1, ep = 1;
  int64_t zero = 0, shard = 0;  // stage; ranks of a shard group
  int64_t group = 0;            // ranks of a replica group of local SGD
  int64_t servers = 0;          // parameter servers, beside those ranks
  bool sp = false;
  const char *schedule = "1f1b", *recompute = nullptr, *cp_method = nullptr, *reduce = nullptr;
  std::vector<int64_t> stage_layers = {};
};

Config in_axes(Config config, const Axes& axes);
std::string text_of(const Axes& axes);  // "dp2_pp2_zb_v": what differs from one process

struct LayoutCheck {
  double tolerance = 0.0;            // 0: every bit
  bool first_weights = false;        // the weights as drawn, to the bit
  bool no_flips = false;             // no choice of an expert falls otherwise
  bool expert_counts = false;        // those choices, what was dropped, and biases moved by them: exactly
  bool expert_losses = false;        // of balancing, within 1e-6, and the z-loss within 1e-5
  size_t dropping_steps = 0;         // in so many first steps choices are dropped, or nothing is tried
  bool twice = false;                // two runs of the layout have the same bits
  double losses = 0.0, norms = 0.0;  // above 0: these alone are compared, within such a part
  double rounded_norms = 0.0;        // gradient norms are within such a part, all else is as said
  bool replica_groups = false;       // after an outer step all replica groups have the same weights
  bool more_state = false;           // a tied table has state on both ends of a pipeline: one is compared
  bool compresses = false;           // without compression.method the weights are others, or nothing is tried
  double near = 0.0;  // above 0: the first loss to the bit, the last within such a part, other weights
  bool plan_of_most = false;  // of PlanTest: activations may stay below, since rows of tokens vary
};

struct LayoutCase {
  std::string name;
  Config config, reference;
  LayoutCheck check;
  Config first = {};  // of ResumeTest: the layout that saved the run after so many steps
  int64_t saved = 0;
  const char* left_out = nullptr;          // under any sanitizer, for this reason
  const char* left_out_threads = nullptr;  // under the thread sanitizer
};

void PrintTo(const LayoutCase& row, std::ostream* out);
std::string layout_case_name(const testing::TestParamInfo<LayoutCase>& row);

// Appends rows, whose names are LABEL_AXES, with what it was told last of sanitizers.
class LayoutTable {
 public:
  void as_one(const std::string& label, const Config& config, const Axes& axes,
              const LayoutCheck& check = {}) {
    beside(label, in_axes(config, axes), one_process(config), check, text_of(axes));
  }
  void beside(const std::string& label, const Config& config, const Config& reference,
              const LayoutCheck& check, const std::string& axes);
  // Goes on in `config` after `saved` steps of `first`, and equals the rest of `reference`.
  void resumed(const std::string& label, const Config& config, const Config& first, int64_t saved,
               const Config& reference, const LayoutCheck& check = {});
  void resumed(const std::string& label, const Config& config, int64_t saved) {
    resumed(label, config, config, saved, config);
  }
  void planned(const std::string& label, const Config& config, const LayoutCheck& check = {}) {
    beside(label, config, config, check, text_of(config));
  }
  void leave_out(const char* reason) { left_out_ = reason; }  // null: nothing any more
  void leave_out_threads(const char* reason) { left_out_threads_ = reason; }
  std::vector<LayoutCase> take() { return std::move(rows_); }

 private:
  std::vector<LayoutCase> rows_;
  const char *left_out_ = nullptr, *left_out_threads_ = nullptr;
};

class LayoutTest : public testing::TestWithParam<LayoutCase> {
 protected:
  void SetUp() override;  // leaves out
};
class ResumeTest : public LayoutTest {};
class PlanTest : public LayoutTest {};

// The run of a config, which this process has computed before or computes now.
const VerifyRun& run_once(const Config& config);

inline LayoutCheck within(double tolerance) {
  return {.tolerance = tolerance};
}

}  // namespace athanor::tests

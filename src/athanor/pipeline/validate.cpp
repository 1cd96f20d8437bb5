#include "athanor/pipeline/validate.h"

#include "athanor/base/check.h"
#include "athanor/pipeline/simulate.h"

namespace athanor::pipeline {
namespace {

void check_counts(const Schedule& s) {
  check(s.num_ranks() > 0, "schedule '{}': got no ranks, expected at least one", s.name);
  check(s.micro_batches > 0, "schedule '{}': got {} micro-batches, expected at least one", s.name,
        s.micro_batches);
  check(s.num_stages() >= s.num_ranks(),
        "schedule '{}': got {} stages on {} ranks, expected at least one each", s.name, s.num_stages(),
        s.num_ranks());
  check(int64_t{s.num_stages()} * s.micro_batches <= 2 * kMaxStageMicroBatches,
        "schedule '{}': got {} stages and {} micro-batches, expected a product of at most {}", s.name,
        s.num_stages(), s.micro_batches, 2 * kMaxStageMicroBatches);
  for (int stage = 0; stage < s.num_stages(); ++stage) {
    const int rank = s.rank_of_stage[static_cast<size_t>(stage)];
    check(rank >= 0 && rank < s.num_ranks(), "schedule '{}': stage {}: got rank {}, expected one of {}",
          s.name, stage, rank, s.num_ranks());
  }
  for (int rank = 0; rank < s.num_ranks(); ++rank)
    check(!s.stages_of(rank).empty(), "schedule '{}': rank {} has no stage", s.name, rank);
}

// Progress of a stage: the micro-batches that its next F, I and W must have.
struct Progress {
  int forward = 0, input = 0, weight = 0;
  std::vector<bool> whole;  // by micro-batch: its backward was a B, so its weight gradient is done
};

class RankCheck {
 public:
  RankCheck(const Schedule& schedule, int rank, std::vector<Progress>& stages)
      : schedule_(schedule), rank_(rank), stages_(stages) {}

  void check_action(const Action& action) {
    expect(action.act == Act::forward || frees_activations(action.act) || makes_input_grad(action.act),
           action, "expected F, B, I or W");
    expect(action.stage >= 0 && action.stage < schedule_.num_stages(), action,
           fmt::format("got stage {}, expected one of {}", action.stage, schedule_.num_stages()));
    expect(
        action.micro_batch >= 0 && action.micro_batch < schedule_.micro_batches, action,
        fmt::format("got micro-batch {}, expected one of {}", action.micro_batch, schedule_.micro_batches));
    const int home = schedule_.rank_of_stage[static_cast<size_t>(action.stage)];
    expect(home == rank_, action, fmt::format("stage {} is on rank {}", action.stage, home));
    Progress& stage = stages_[static_cast<size_t>(action.stage)];
    const int micro = action.micro_batch;
    if (action.act == Act::forward) {
      expect_next(action, "F", stage.forward);
    } else if (makes_input_grad(action.act)) {
      expect_next(action, "I or B", stage.input);
      expect(micro < stage.forward, action, "its F has not been done yet");
      stage.whole.push_back(action.act == Act::backward);
    } else {
      skip_whole(stage);
      expect(micro >= stage.input || !stage.whole[static_cast<size_t>(micro)], action,
             "its weight gradient was part of a B");
      expect_next(action, "W", stage.weight);
      expect(micro < stage.input, action, "its I has not been done yet");
    }
    if (action.act == Act::backward) {
      skip_whole(stage);
      expect(stage.weight > micro, action,
             fmt::format("the W of micro-batch {} is still due, expected weight gradients in the order of "
                         "micro-batches",
                         stage.weight));
    }
    ++index_;
  }

  static void skip_whole(Progress& stage) {
    while (stage.weight < stage.input && stage.whole[static_cast<size_t>(stage.weight)]) ++stage.weight;
  }

 private:
  void expect(bool condition, const Action& action, const std::string& reason) const {
    check(condition, "schedule '{}': rank {}: action {}, {}: {}", schedule_.name, rank_, index_, str(action),
          reason);
  }
  void expect_next(const Action& action, const char* act, int& next) const {
    expect(action.micro_batch >= next, action, "it was done before");
    expect(action.micro_batch == next, action,
           fmt::format("got micro-batch {}, expected {}: on a stage {} go in the order of micro-batches",
                       action.micro_batch, next, act));
    ++next;
  }

  const Schedule& schedule_;
  int rank_;
  std::vector<Progress>& stages_;
  int64_t index_ = 0;
};

}  // namespace

void validate(const Schedule& schedule) {
  check_counts(schedule);
  std::vector<Progress> stages(schedule.rank_of_stage.size());
  for (int rank = 0; rank < schedule.num_ranks(); ++rank) {
    RankCheck rank_check(schedule, rank, stages);
    for (const Action& action : schedule.ranks[static_cast<size_t>(rank)]) rank_check.check_action(action);
  }
  for (int stage = 0; stage < schedule.num_stages(); ++stage) {
    Progress& progress = stages[static_cast<size_t>(stage)];
    RankCheck::skip_whole(progress);
    const auto complete = [&](int done, const char* act) {
      check(done == schedule.micro_batches,
            "schedule '{}': rank {}: the {} of stage {}, micro-batch {} is missing", schedule.name,
            schedule.rank_of_stage[static_cast<size_t>(stage)], act, stage, done);
    };
    complete(progress.forward, "F");
    complete(progress.input, "B (or I)");
    complete(progress.weight, "W");
  }
  walk(schedule, [](int, const Action&) {});
}

}  // namespace athanor::pipeline

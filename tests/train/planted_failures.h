// A failure planted at one call between ranks of a training: how tests ask what is left of a step that fails there.
//
//   const UndisturbedRun whole(config);
//   const auto [first, last] = whole.of_step(/*rank=*/1, /*step=*/2);
//   const BrokenRun broken(config, {.rank = 1, .call = first});          // and another segment goes on
//   EXPECT_TRUE(compare(broken.run, whole.run).bitwise) << broken.calls.failed_call();
//
// The rank is lost when it starts the call; the others learn of it as they would in a run. The next segment goes on in the
// same process. Thread rule: one thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "athanor/base/error.h"
#include "train/layout_run.h"

namespace athanor::tests {

struct PlantedFailure {
  int rank = -1;  // nowhere
  int64_t call = -1;
};

// The calls that each rank starts, by number; one of them fails.
class CountedCalls {
 public:
  CountedCalls(int ranks, PlantedFailure failure) : calls_(static_cast<size_t>(ranks)), failure_(failure) {}

  void start(int rank, const std::string& name) {
    const std::lock_guard lock(mutex_);
    OfRank& of = calls_[static_cast<size_t>(rank)];
    of.names.push_back(name);
    if (rank != failure_.rank || std::ssize(of.names) != failure_.call + 1) return;
    failed_call_ = name;
    throw PeerLost(rank, "planted: the rank is lost at '" + name + "'");
  }
  LayoutHooks hooks();

  struct OfRank {
    std::vector<std::string> names;
    std::vector<int64_t> after_step;  // so many calls
  };
  const OfRank& of(int rank) const { return calls_[static_cast<size_t>(rank)]; }
  const std::string& failed_call() const { return failed_call_; }

 private:
  std::mutex mutex_;
  std::vector<OfRank> calls_;
  PlantedFailure failure_;
  std::string failed_call_;
  std::vector<std::unique_ptr<Group>> groups_;
};

// In front of a group: counts what is started.
class CountedGroup final : public Group {
 public:
  CountedGroup(Group& real, int rank, CountedCalls& calls) : real_(real), rank_(rank), calls_(calls) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  const std::string& name() const override { return real_.name(); }
  Work start(Call call, Buffers buffers, Start how) override {
    calls_.start(rank_, call.name);
    return real_.start(std::move(call), std::move(buffers), how);
  }
  Traffic traffic() const override { return real_.traffic(); }
  void throw_if_broken() override { real_.throw_if_broken(); }
  void abort(const std::string& reason) override { real_.abort(reason); }

 private:
  Group& real_;
  int rank_;  // of the world
  CountedCalls& calls_;
};

inline LayoutHooks CountedCalls::hooks() {
  LayoutHooks hooks;
  hooks.groups = [this](Groups& groups) {
    const int rank = groups.world().rank();
    const std::lock_guard lock(mutex_);
    std::map<Group*, Group*> in_front;
    const auto put = [&](Group*& group) {
      if (group == nullptr || group->size() == 1) return;
      Group*& front = in_front[group];
      if (front == nullptr) {
        groups_.push_back(std::make_unique<CountedGroup>(*group, rank, *this));
        front = groups_.back().get();
      }
      group = front;
    };
    for (Group** group :
         {&groups.all, &groups.role, &groups.exchange, &groups.tensor, &groups.context, &groups.pipeline,
          &groups.pipeline_ends, &groups.data, &groups.losses, &groups.balance, &groups.experts})
      put(*group);
    for (ParameterGroups* of : {&groups.dense, &groups.expert})
      for (Group** group : {&of->sum, &of->shard, &of->replicate, &of->average}) put(*group);
  };
  hooks.after_step = [this](Training&, TrainState&, World& world) {
    const std::lock_guard lock(mutex_);
    OfRank& of = calls_[static_cast<size_t>(world.rank())];
    of.after_step.push_back(std::ssize(of.names));
  };
  return hooks;
}

// Four steps, the first three of them in a segment that may break.
constexpr int64_t kStepsAround = 4;

inline VerifyRun run_counted(const Config& config, CountedCalls& calls, bool may_break) {
  const int ranks = ranks_of(config);
  std::vector<VerifySegment> segments;
  if (may_break)
    segments.push_back({.config = config, .ranks = ranks, .last_step = kStepsAround - 1, .may_break = true});
  segments.push_back({.config = config, .ranks = ranks, .last_step = kStepsAround});
  return verify::run_layouts(
      std::move(segments), 2,
      [&](int64_t step, int64_t micro_batch, Batch& batch) { batch = make_batch(config, step, micro_batch); },
      calls.hooks());
}

// An undisturbed training, and the calls of its first two steps.
struct UndisturbedRun {
  explicit UndisturbedRun(const Config& config)
      : calls(ranks_of(config), {}), run(run_counted(config, calls, false)) {}
  CountedCalls calls;
  VerifyRun run;

  // [first, last) of a step, 1 or 2, and of those in the next one that may complete it.
  std::pair<int64_t, int64_t> of_step(int rank, size_t step) const {
    const std::vector<int64_t>& after = calls.of(rank).after_step;
    return {step == 1 ? 0 : after.at(0), std::min(after.at(step - 1) + 3, after.at(step))};
  }
};

struct BrokenRun {
  BrokenRun(const Config& config, PlantedFailure failure) : calls(ranks_of(config), failure) {
    run = run_counted(config, calls, true);
  }
  CountedCalls calls;
  VerifyRun run;
};

}  // namespace athanor::tests

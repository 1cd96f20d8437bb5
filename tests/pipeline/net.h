// A small network cut into pipeline stages, run by a schedule on ranks that are threads, with all that it must give:
// the gradients and losses of one process, the bytes on the wire, no memory left.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "athanor/comm/shm/thread.h"
#include "athanor/ops/ops.h"
#include "athanor/pipeline/execute.h"
#include "athanor/pipeline/solve.h"
#include "athanor/pipeline/tape_stage.h"
#include "support/engine.h"

namespace athanor::tests {

inline std::vector<Schedule> schedules(int p, int m) {
  std::vector<Schedule> all;
  for (const std::string& name : schedule_names()) all.push_back(make_schedule(name, {p, m, 0}));
  all.push_back(make_schedule("interleaved", {p, m, 3}));
  all.push_back(
      solve({p, m, 2, {std::vector<StageCost>(static_cast<size_t>(2 * p), {3, 2, 4, 1}), 0.5}, 0}).schedule);
  return all;
}

// A small model: token embedding, some linear layers with an activation between, a head. Layer l of the
// model belongs to a stage; weights have random values by name, so stages of any cut start from the same
// ones.
constexpr int64_t kLayers = 9, kWidth = 16, kVocab = 23, kTokens = 6;

class Net : public TapeStage {
 public:
  static constexpr int64_t kBoundary = kWidth;  // elements per token
  Net(Engine& engine, int64_t first, int64_t last, bool embeds, bool ends)
      : TapeStage(ends), engine_(engine), first_(first), last_(last), embeds_(embeds), ends_(ends) {
    if (embeds) declare("embed", {kVocab, kWidth});
    for (int64_t layer = first; layer < last; ++layer)
      declare("layer" + std::to_string(layer), {kWidth, kWidth});
    if (ends) declare("head", {kVocab, kWidth});
  }
  std::vector<TensorSpec> inputs(int micro) override { return boundary(!embeds_, micro); }
  std::vector<TensorSpec> outputs(int micro) override { return boundary(!ends_, micro); }
  std::map<std::string, std::vector<float>> gradients() const {
    std::map<std::string, std::vector<float>> all;
    for (const auto& param : params_) all[param->name()] = to_floats(param->uses().front()->grad());
    return all;
  }
  std::vector<float> losses;

 protected:
  PassContext context(int) override { return {.record = true}; }
  std::vector<Var> compute(Tape& tape, int micro, const std::vector<Var>& x) override {
    size_t next = 0;
    Var y = embeds_ ? embedding(tape, ids(micro, "ids"), weight(next++), nullptr, 0) : x.at(0);
    for (int64_t layer = first_; layer < last_; ++layer) y = add(y, gelu(linear(y, weight(next++), nullptr)));
    if (ends_) y = loss(y, weight(next), micro);
    return {y};
  }
  virtual std::vector<TensorSpec> boundary(bool exists, int micro) const {
    if (!exists) return {};
    return {{"hidden", {rows(micro), kTokens, kWidth}, Dtype::f32}};
  }
  Var loss(const Var& y, Weight& head, int micro) {
    const Var loss = linear_cross_entropy(y, head, nullptr, ids(micro, "targets"), kVocab);
    for (const float each : to_floats(loss.value)) losses.push_back(each);
    return loss;
  }
  static int64_t rows(int micro) { return micro % 2 + 1; }  // micro-batches need not be of one size
  Tensor ids(int micro, const char* what) {
    return engine_.ids({rows(micro), kTokens}, kVocab, what + std::to_string(micro));
  }
  Weight& weight(size_t i) { return *params_[i]->uses().front(); }
  void declare(const std::string& name, const Shape& shape) {
    params_.push_back(engine_.param(shape, name, 0.3f));
    params_.back()->uses().front()->set_grad(zeros(engine_.arena, shape, Dtype::f32, Category::gradients));
  }

  Engine& engine_;
  int64_t first_, last_;
  bool embeds_, ends_;

 private:
  std::vector<std::unique_ptr<Param>> params_;
};

// On the wire: an activation and a gradient of every micro-batch at each boundary between stages of different ranks.
inline int64_t boundary_bytes(const Schedule& schedule, int64_t width) {
  int64_t elements = 0;
  for (int s = 1; s < schedule.num_stages(); ++s)
    for (int micro = 0; micro < schedule.micro_batches; ++micro)
      if (schedule.rank_of_stage[static_cast<size_t>(s)] !=
          schedule.rank_of_stage[static_cast<size_t>(s - 1)])
        elements += 2 * (micro % 2 + 1) * kTokens * width;
  return elements * static_cast<int64_t>(sizeof(float));
}

struct Outcome {
  std::map<std::string, std::vector<float>> gradients;
  std::vector<float> losses;
  bool operator==(const Outcome&) const = default;
};

// Stage s has layers [cut[s], cut[s+1]).
template <typename Network = Net>
Outcome run(const Schedule& schedule, const std::vector<int64_t>& cut) {
  const auto groups = make_thread_groups(schedule.num_ranks());
  std::vector<Outcome> outcomes(schedule.ranks.size());
  run_ranks(groups, [&](Group& group) {
    Engine engine;
    std::vector<std::unique_ptr<Network>> nets;
    std::vector<Stage*> stages;
    for (const int stage : schedule.stages_of(group.rank())) {
      const auto s = static_cast<size_t>(stage);
      nets.push_back(std::make_unique<Network>(engine, cut[s], cut[s + 1], stage == 0,
                                               stage + 1 == schedule.num_stages()));
      stages.push_back(nets.back().get());
    }
    const uint64_t before = engine.arena.usage().current[static_cast<size_t>(Category::activations)];
    Executor(schedule, stages, group, engine.arena).run();
    Outcome& outcome = outcomes[static_cast<size_t>(group.rank())];
    for (const auto& net : nets) {
      EXPECT_EQ(net->num_held(), 0) << "of a micro-batch something was kept";
      outcome.gradients.merge(net->gradients());
      if (!net->losses.empty()) outcome.losses = net->losses;
    }
    EXPECT_EQ(engine.arena.usage().current[static_cast<size_t>(Category::activations)], before)
        << "memory is left";
  });
  Traffic traffic;
  for (const auto& group : groups) traffic += group->traffic();
  EXPECT_EQ(traffic.of(Collective::send).bytes, boundary_bytes(schedule, Network::kBoundary));
  EXPECT_EQ(traffic.total().bytes, boundary_bytes(schedule, Network::kBoundary));
  for (size_t r = 1; r < outcomes.size(); ++r) {
    outcomes[0].gradients.merge(outcomes[r].gradients);
    if (!outcomes[r].losses.empty()) outcomes[0].losses = outcomes[r].losses;
  }
  return outcomes[0];
}

inline std::vector<int64_t> even_cut(int stages) {
  std::vector<int64_t> cut;
  for (int s = 0; s <= stages; ++s) cut.push_back(kLayers * s / stages);
  return cut;
}

}  // namespace athanor::tests

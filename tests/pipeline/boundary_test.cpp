// Several tensors between two stages: their gradients have the bits of one process, each is a message with its name.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "athanor/base/error.h"
#include "pipeline/net.h"

namespace athanor::tests::boundary_test {
namespace {

// An encoder and a decoder: two tensors at each boundary. The first layers change only the encoded one and pass the
// hidden one on. The others change only the hidden one; all but one of them look at the encoded one, too.
class Translator : public Net {
 public:
  static constexpr int64_t kEncoded = 8, kBoundary = kWidth + kEncoded;
  Translator(Engine& engine, int64_t first, int64_t last, bool embeds, bool ends)
      : Net(engine, first, last, embeds, ends) {
    if (embeds) declare("source", {kVocab, kEncoded});
    for (int64_t layer = first; layer < last; ++layer)
      declare("other" + std::to_string(layer), {encodes(layer) ? kEncoded : kWidth, kEncoded});
  }

 protected:
  std::vector<Var> compute(Tape& tape, int micro, const std::vector<Var>& x) override {
    const size_t layers = static_cast<size_t>(last_ - first_);
    size_t next = embeds_ ? 1 : 0, other = next + layers + (ends_ ? 1 : 0);
    EXPECT_EQ(x.size(), embeds_ ? 0u : 2u);
    Var y = embeds_ ? embedding(tape, ids(micro, "ids"), weight(0), nullptr, 0) : x.at(0);
    Var encoded = embeds_ ? embedding(tape, ids(micro, "source"), weight(other++), nullptr, 0) : x.at(1);
    for (int64_t layer = first_; layer < last_; ++layer, ++next, ++other) {
      if (encodes(layer)) {
        encoded = add(encoded, gelu(linear(encoded, weight(other), nullptr)));
        continue;
      }
      if (layer != 5) y = add(y, linear(encoded, weight(other), nullptr));
      y = add(y, gelu(linear(y, weight(next), nullptr)));
    }
    return ends_ ? std::vector<Var>{loss(y, weight(next), micro)} : std::vector<Var>{y, encoded};
  }
  std::vector<TensorSpec> boundary(bool exists, int micro) const override {
    std::vector<TensorSpec> list = Net::boundary(exists, micro);
    if (exists) list.push_back({"encoded", {rows(micro), kTokens, kEncoded}, Dtype::f32});
    return list;
  }

 private:
  static bool encodes(int64_t layer) { return layer < 3; }
};

// What a stage passes on unchanged has the gradient of all its uses: this stage's added to those behind, as in one
// process.
TEST(Boundary, TwoTensorsBetweenStagesHaveTheBitsOfOneProcess) {
  for (const int m : {1, 3, 7}) {
    const Outcome one = run<Translator>(make_schedule("gpipe", {1, m, 1}), {0, kLayers});
    for (const auto& [name, values] : one.gradients) {
      const bool is_used = name != "layer0" && name != "layer1" && name != "layer2" && name != "other5";
      EXPECT_EQ(std::any_of(values.begin(), values.end(), [](float each) { return each != 0.0f; }), is_used)
          << name;
    }
    for (const char* name : {"interleaved", "zb-v"})  // a stage in the middle has four uses
      EXPECT_TRUE(run<Translator>(make_schedule(name, {2, m, 2}), {0, 2, 3, 8, kLayers}) == one) << name;
    for (const int p : {1, 2, 3})
      for (const Schedule& schedule : schedules(p, m))
        EXPECT_TRUE(run<Translator>(schedule, even_cut(schedule.num_stages())) == one)
            << schedule.name << ", " << p << " ranks, " << m << " micro-batches";
  }
}

// Notes the messages that a rank starts.
class Noting final : public Group {
 public:
  explicit Noting(Group& real) : real_(real) {}
  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  const std::string& name() const override { return real_.name(); }
  Work start(Call call, Buffers buffers, Start how) override {
    calls.push_back(fmt::format("{} {} {}", name_of(call.collective), call.count, call.name));
    return real_.start(std::move(call), std::move(buffers), how);
  }
  Traffic traffic() const override { return real_.traffic(); }
  void throw_if_broken() override { real_.throw_if_broken(); }
  void abort(const std::string& reason) override { real_.abort(reason); }
  std::vector<std::string> calls;

 private:
  Group& real_;
};

// The messages of the first of two ranks under 1F1B with two micro-batches.
template <typename Network>
std::vector<std::string> messages() {
  const Schedule schedule = make_schedule("1f1b", {2, 2, 1});
  std::vector<std::string> calls;
  run_ranks(make_thread_groups(2), [&](Group& group) {
    Engine engine;
    const bool is_first = group.rank() == 0;
    Network net(engine, is_first ? 0 : 4, is_first ? 4 : kLayers, is_first, !is_first);
    Noting noting(group);
    Executor(schedule, {&net}, noting, engine.arena).run();
    if (is_first) calls = noting.calls;
  });
  return calls;
}

TEST(Boundary, AMessagePerTensorNamedWhereThereAreSeveral) {
  EXPECT_THAT(messages<Net>(), ::testing::ElementsAre("recv 96 gradient for stage 0, micro-batch 0",
                                                      "send 96 activation for stage 1, micro-batch 0",
                                                      "send 192 activation for stage 1, micro-batch 1",
                                                      "recv 192 gradient for stage 0, micro-batch 1"));
  EXPECT_THAT(messages<Translator>(),
              ::testing::ElementsAre("recv 96 gradient 'hidden' for stage 0, micro-batch 0",
                                     "recv 48 gradient 'encoded' for stage 0, micro-batch 0",
                                     "send 96 activation 'hidden' for stage 1, micro-batch 0",
                                     "send 48 activation 'encoded' for stage 1, micro-batch 0",
                                     "send 192 activation 'hidden' for stage 1, micro-batch 1",
                                     "send 96 activation 'encoded' for stage 1, micro-batch 1",
                                     "recv 192 gradient 'hidden' for stage 0, micro-batch 1",
                                     "recv 96 gradient 'encoded' for stage 0, micro-batch 1"));
}

class WrongStage : public Translator {
 public:
  using Translator::Translator;
  std::vector<Tensor> forward(int micro, const std::vector<Tensor>& x) override {
    std::vector<Tensor> y = Translator::forward(micro, x);
    if (micro == 0) std::swap(y[0], y[1]);
    return y;
  }
};

TEST(Boundary, ATensorUnlikeItsSpecIsRefused) {
  const auto group = make_single_group();
  Engine engine;
  WrongStage first(engine, 0, 4, true, false);
  Translator second(engine, 4, kLayers, false, true);
  try {
    Executor(make_schedule("bfs", {1, 1, 2}), {&first, &second}, *group, engine.arena).run();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "pipeline: activation 'hidden' for stage 1, micro-batch 0: got f32 [1,6,8], expected f32 "
                 "[1,6,16]");
  }
}

}  // namespace
}  // namespace athanor::tests::boundary_test

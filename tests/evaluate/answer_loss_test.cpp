// A loss on answers alone against one that is masked by hand, and packed conversations against each one alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "athanor/data/channel.h"
#include "evaluate/tiny_model.h"

namespace athanor::tests::answer_loss_test {
namespace {

using Ids = std::vector<int32_t>;

const Ids kTokens = {3, 7, 1, 20, 11, 5, 5, 2, 19, 8, 4, 13};
const std::vector<bool> kInAnswer = {false, false, false, true,  true, true,
                                     false, false, false, false, true, true};

Ids targets_of(const Ids& tokens) {
  Ids targets(tokens.begin() + 1, tokens.end());
  targets.push_back(9);
  return targets;
}

Tensor to_tensor(Engine& engine, const Ids& ids) {
  Tensor tensor =
      empty(engine.arena, {1, static_cast<int64_t>(ids.size())}, Dtype::i32, Category::activations);
  copy_from_host(tensor, ids.data(), tensor.size_bytes());
  return tensor;
}

std::vector<float> token_losses(Engine& engine, const Model& model, const Ids& ids, const Ids& targets,
                                const Ids& document_starts = {}) {
  PassContext context{.num_sequences = 1, .seq_len = static_cast<int64_t>(ids.size())};
  if (!document_starts.empty()) context.document_starts = to_tensor(engine, document_starts);
  Tape tape(context);
  const Tensor loss =
      model.loss(tape, {.ids = to_tensor(engine, ids), .targets = to_tensor(engine, targets)}, {}).value;
  std::vector<float> values(static_cast<size_t>(loss.numel()));
  copy_to_host(values.data(), loss, loss.size_bytes());
  return values;
}

// The gradient of the sum of all losses, of all parameters behind each other.
std::vector<double> gradient(Engine& engine, Model& model, const Ids& ids, const Ids& targets) {
  for (Weight* weight : model.weights())
    weight->set_grad(zeros(engine.arena, weight->param().shape(), Dtype::f32, Category::gradients));
  Tape tape({.num_sequences = 1, .seq_len = static_cast<int64_t>(ids.size()), .record = true});
  tape.backward(model.loss(tape, {.ids = to_tensor(engine, ids), .targets = to_tensor(engine, targets)}, {}));
  std::vector<double> all;
  for (Weight* weight : model.weights()) {
    std::vector<float> values(static_cast<size_t>(weight->grad().numel()));
    copy_to_host(values.data(), weight->grad(), weight->grad().size_bytes());
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

Ids masked_targets() {
  Ids targets = targets_of(kTokens);
  for (size_t i = 0; i < targets.size(); ++i)
    if (!kInAnswer[i]) targets[i] = kNoTarget;
  return targets;
}

TEST(AnswerLoss, IsTheLossOfEachTokenTimesTheMask) {
  Engine engine;
  const auto model = make_tiny_model(engine);
  const std::vector<float> all = token_losses(engine, *model, kTokens, targets_of(kTokens)),
                           masked = token_losses(engine, *model, kTokens, masked_targets());
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_GT(all[i], 0.01f);
    EXPECT_NEAR(masked[i], kInAnswer[i] ? all[i] : 0.0f, 1e-6) << "token " << i;
  }
}

// Without any mask: what one more token adds to the gradient of a shorter sequence is that of its own loss, because a
// model looks at nothing behind a token.
TEST(AnswerLoss, HasTheGradientOfTheSumOverTheAnswers) {
  Engine engine;
  const auto model = make_tiny_model(engine);
  const Ids targets = targets_of(kTokens);
  const std::vector<double> masked = gradient(engine, *model, kTokens, masked_targets());
  std::vector<double> by_hand(masked.size(), 0.0), before(masked.size(), 0.0);
  for (size_t length = 1; length <= kTokens.size(); ++length) {
    const auto end = static_cast<std::ptrdiff_t>(length);
    const std::vector<double> now = gradient(engine, *model, {kTokens.begin(), kTokens.begin() + end},
                                             {targets.begin(), targets.begin() + end});
    for (size_t i = 0; i < now.size() && kInAnswer[length - 1]; ++i) by_hand[i] += now[i] - before[i];
    before = now;
  }
  double difference = 0, size = 0;
  for (size_t i = 0; i < masked.size(); ++i) {
    difference += (masked[i] - by_hand[i]) * (masked[i] - by_hand[i]);
    size += by_hand[i] * by_hand[i];
  }
  EXPECT_GT(size, 0.0);
  EXPECT_LT(std::sqrt(difference / size), 1e-6);
}

// Rotary positions are relative, so a conversation that lies behind others in its sequence loses as it would alone.
TEST(AnswerLoss, OfPackedConversationsIsThatOfEachAlone) {
  Engine engine;
  const auto model = make_tiny_model(engine);
  const std::vector<size_t> lengths = {5, 3, 4};
  Ids starts;
  for (const size_t length : lengths)
    starts.insert(starts.end(), length, static_cast<int32_t>(starts.size()));
  const std::vector<float> packed = token_losses(engine, *model, kTokens, masked_targets(), starts),
                           across = token_losses(engine, *model, kTokens, masked_targets());
  std::ptrdiff_t begin = 0;
  double attends_across = 0;
  for (const size_t length : lengths) {
    const auto end = begin + static_cast<std::ptrdiff_t>(length);
    const Ids targets = masked_targets();
    const std::vector<float> alone =
        token_losses(engine, *model, {kTokens.begin() + begin, kTokens.begin() + end},
                     {targets.begin() + begin, targets.begin() + end});
    for (size_t i = 0; i < length; ++i) {
      const size_t at = static_cast<size_t>(begin) + i;
      EXPECT_NEAR(packed[at], alone[i], 1e-6f * std::max(1.0f, alone[i])) << "token " << at;
      attends_across = std::max(attends_across, std::fabs(static_cast<double>(across[at] - alone[i])));
    }
    begin = end;
  }
  EXPECT_GT(attends_across, 1e-3);  // without the mask it is another loss
}

}  // namespace
}  // namespace athanor::tests::answer_loss_test

// Validation loss, perplexity and bits per byte of a model on the held-out text of channels.
//
//   const Evaluation e = evaluate_channels(held_out_passes(model), arena, dataset.channels, group, {.batch = 4});
//   print(e.channels[0].loss, e.channels[0].perplexity(), e.channels[0].bits_per_byte());
//
// Loss is the mean natural-log loss over all predicted tokens. Of an encoder these are the tokens that its objective takes
// out of the held-out text (data/objectives), the same in each evaluation; they stand for no bytes. Else every held-out token of a channel is predicted once,
// from at most seq_len tokens before it (data/channel.h), but for those that its loss mask leaves out: these are read
// only, and neither they nor their bytes count. The windows are partitioned over the ranks of the group in
// batches of `batch` windows. Sums are added in the order of the windows, so any number of ranks gets the same bits.
// Thread rule: one thread per model. Errors: those of the data, the model and the group.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "athanor/comm/group.h"
#include "athanor/data/channel.h"
#include "athanor/engine/held_out.h"
#include "athanor/models/model.h"

namespace athanor::evaluate {

struct ChannelScore {
  std::string name;
  int64_t tokens = 0;            // predicted
  double loss = 0.0;             // nats per token
  std::optional<int64_t> bytes;  // of the text that the predicted tokens stand for; none without a tokenizer
  double perplexity() const;
  std::optional<double> bits_per_byte() const;
};

struct Evaluation {
  std::vector<ChannelScore> channels;
  int64_t tokens = 0;
  double loss = 0.0;                     // over all tokens of all channels
  bool given_up = false;                 // stopped by EvaluateOptions::give_up: the results are not valid
  std::optional<int64_t> bytes() const;  // of all channels; none if one of them has none
  std::optional<double> bits_per_byte() const;
};

// The passes of a whole model on this rank.
HeldOutPasses held_out_passes(const Model& model);

struct EvaluateOptions {
  int64_t batch = 4;       // windows in one forward pass
  int64_t max_tokens = 0;  // per channel, counted or not; 0: all held-out tokens
  // All ranks make the same number of forward passes; a rank that has no windows left repeats one and discards it.
  // Needed with ZeRO-3, whose passes all-gather parameters.
  bool equal_passes = false;
  // Called before each pass, equally often on all ranks. If it returns true (it must, on all ranks), evaluation stops.
  std::function<bool()> give_up = {};
};

Evaluation evaluate_channels(const HeldOutPasses& passes, Arena& arena, std::span<const Channel> channels,
                             Group& group, const EvaluateOptions& options);

// Error for an encoder, which predicts no next token.
void check_predicts_next(const Model& model);

struct IdsScore {
  int64_t tokens = 0;  // predicted: of each sequence one less than its ids
  double loss = 0.0;   // mean over the predicted tokens
};
// Scores sequences of ids, each from its own start. Error naming sequence and limit for ids outside the vocabulary or a
// sequence longer than max_seq_len + 1, and Error if there is nothing to predict.
IdsScore score_ids(const Model& model, Arena& arena, const std::vector<std::vector<int32_t>>& sequences);

}  // namespace athanor::evaluate

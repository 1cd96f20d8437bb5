// Objectives: what a model is to learn from a sequence. An objective turns tokens and their successors, which is next-token
// prediction, into what the model reads and what it is to say at each place.
//
//   const auto objective = make_objective(config, tokenizer.get(), vocab_size);   // null: next-token prediction
//   objective->apply({.channel = "en", .epoch = 2, .sequence = 17}, {tokens, targets, /*filled=*/120});
//
// An objective is a pure function of the seed, the place of the sequence in the data, and its tokens (law 2): a sequence is
// treated alike by any number of ranks and after any restart, and otherwise in each epoch.
// Thread rule: const methods from any thread. Errors: ConfigError for a tokenizer that lacks what the objective needs.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "athanor/config/config.h"
#include "athanor/text/tokenizer.h"

namespace athanor::data {

// Where a sequence stands. Held-out windows have an epoch of their own: they are the same in every evaluation.
struct SequencePlace {
  static constexpr int64_t kHeldOut = -1;
  std::string_view channel;
  int64_t epoch = 0, sequence = 0;
};

// One sequence of a batch [T]. `filled` places from the first on have text, the others are padding.
struct SequenceRow {
  std::span<int32_t> tokens, targets;
  int64_t filled = 0;
};

class Objective {
 public:
  virtual ~Objective() = default;
  virtual void apply(const SequencePlace& place, const SequenceRow& row) const = 0;
  virtual std::string identity() const = 0;  // what a resumed run must find unchanged
};

// That of data.objective; null for next-token prediction. `tokenizer` may be null: then data.mask_token is an id.
std::shared_ptr<const Objective> make_objective(const Config& config, const Tokenizer* tokenizer,
                                                int64_t vocab_size);

}  // namespace athanor::data

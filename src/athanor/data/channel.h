// A channel: one named stream of tokens for training, and one held out for validation: its own tail, or another stream.
//
//   const Channel channel({.name = "en", .weight = 0.7, .seq_len = 256, .valid_fraction = 0.01,
//                          .vocab_size = 32000}, std::make_shared<IndexedDataset>("data/en"), nullptr);
//   std::vector<int32_t> ids(257);
//   channel.read_train(5, ids);        // sequence 5: inputs ids[0..255], targets ids[1..256]
//
// The last ceil(valid_fraction * tokens) tokens are held out; where the channel is given a stream of its own to hold
// out, all of that is, and valid_fraction counts for nothing. A training sequence is a window of seq_len + 1
// tokens; neighbours share one token, so that each token but the first is a target exactly once; a rest
// shorter than a sequence at the end of the training part is left out. Validation windows predict every
// held-out token exactly once: the first is predicted from the last training token, the last window may be
// shorter. In a stream of its own the first token has nothing before it: it is predicted by nothing.
//
// Thread rule: const methods from any thread.
// Errors: too few tokens for what the channel is for, or an id outside the vocabulary: an Error naming the
// channel, what it has and what was expected.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "athanor/data/indexed_dataset.h"
#include "athanor/data/text_bytes.h"

namespace athanor {

struct ChannelOptions {
  std::string name;
  double weight = 1.0;  // 0: only evaluated, so it needs no training sequence
  int64_t seq_len = 256;
  double valid_fraction = 0.01;
  int64_t vocab_size = 0;      // of the model: ids must be below
  bool document_mask = false;  // tokens attend within their own document only
};

// `targets` predicted tokens, the inputs starting at token `first`.
struct Window {
  int64_t first = 0;
  int64_t targets = 0;
};

class Channel {
 public:
  // bytes may be null: then bytes_of knows only what the token file knows. valid: null takes the tail of tokens.
  Channel(ChannelOptions options, std::shared_ptr<const IndexedDataset> tokens,
          std::shared_ptr<const TokenBytes> bytes, std::shared_ptr<const IndexedDataset> valid = nullptr);

  const std::string& name() const { return options_.name; }
  double weight() const { return options_.weight; }
  int64_t seq_len() const { return options_.seq_len; }
  const IndexedDataset& tokens() const { return *tokens_; }
  int64_t num_tokens() const { return tokens_->num_tokens(); }
  int64_t num_train_tokens() const { return num_train_tokens_; }
  int64_t num_valid_tokens() const {
    return valid_ == nullptr ? num_tokens() - num_train_tokens_ : valid_->num_tokens();
  }

  int64_t num_train_sequences() const;
  void read_train(int64_t sequence, std::span<int32_t> ids /* [seq_len + 1] */) const;

  int64_t num_valid_windows() const;
  int64_t num_valid_targets() const;  // all held-out tokens; one fewer where nothing comes before them
  Window valid_window(int64_t window) const;
  // Any range of the stream that windows are of, ids checked against the vocabulary; a window needs targets + 1.
  void read_valid(int64_t first, std::span<int32_t> ids) const;
  // Any range of the stream for training.
  void read(int64_t first, std::span<int32_t> ids) const;

  bool tells_documents_apart() const { return options_.document_mask; }
  // Of the tokens from `first` on, how many of them come before the start of each one's document; 0 for the document
  // that token `first` is in. Of the stream for training, and of that which windows are of.
  void document_starts(int64_t first, std::span<int32_t> starts) const;
  void valid_document_starts(int64_t first, std::span<int32_t> starts) const;

  // Bytes of text that tokens [first, last) of that stream stand for; none where nothing tells.
  std::optional<int64_t> bytes_of(int64_t first, int64_t last) const { return bytes_->of(first, last); }
  std::optional<int64_t> valid_bytes_of(int64_t first, int64_t last) const;

 private:
  void read_of(const IndexedDataset& tokens, int64_t first, std::span<int32_t> ids) const;
  const IndexedDataset& valid_tokens() const { return valid_ == nullptr ? *tokens_ : *valid_; }

  ChannelOptions options_;
  std::shared_ptr<const IndexedDataset> tokens_;
  std::shared_ptr<const IndexedDataset> valid_;           // null: the tail of tokens_
  std::shared_ptr<const TextBytes> bytes_, valid_bytes_;  // valid_bytes_ is null where valid_ is
  int64_t num_train_tokens_ = 0;
};

}  // namespace athanor

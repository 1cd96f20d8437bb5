// A channel is one source of the data mixture: a named, weighted stream of tokens for training, and a validation split,
// which is the stream's own tail or another stream. Losses are reported per channel.
//
//   const Channel channel({.name = "en", .weight = 0.7, .seq_len = 256, .valid_fraction = 0.01,
//                          .vocab_size = 32000}, std::make_shared<IndexedDataset>("data/en"), nullptr);
//   for (const Window& window : channel.train_windows(5))    // sequence 5: what it is made of, from its first token on
//     channel.read(window.first, ids);                        // inputs ids[0..255], targets ids[1..256]
//
// Training, packing stream: sequence i is one window of seq_len + 1 tokens. Neighbouring windows share one token, so every
// token but the first is a target exactly once. A rest shorter than a sequence at the end of the training part is left out.
// Packing best-fit: a sequence is made of whole documents and padding (packing/best_fit.h). Every token but the first of each document
// is a target exactly once, in validation too, whose windows stay those of the stream.
// Validation: the last ceil(valid_fraction * tokens) tokens are held out. With a validation stream all of that stream
// is held out, and valid_fraction has no effect. Validation windows predict every held-out token exactly once; the last
// window may be shorter. The first held-out token is predicted from the last training token; the first token of a
// validation stream has nothing before it and is not predicted.
//
// Thread rule: const methods from any thread.
// Errors: Error naming the channel, what was got and what was expected, for too few tokens or an id outside the
// vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "athanor/data/indexed_dataset.h"
#include "athanor/data/objectives/objective.h"
#include "athanor/data/packing/best_fit.h"
#include "athanor/data/spool/spool.h"
#include "athanor/data/text_bytes.h"

namespace athanor::data {

struct ChannelOptions {
  std::string name;
  double weight = 1.0;  // 0: the channel is only evaluated and needs no training sequence
  int64_t seq_len = 256;
  double valid_fraction = 0.01;
  int64_t vocab_size = 0;                           // of the model: ids must be below
  bool document_mask = false;                       // tokens attend within their own document only
  bool best_fit = false;                            // documents are packed, not cut from a stream
  std::shared_ptr<const Objective> objective = {};  // null: next-token prediction
};

// A target that is not predicted: it does not count, and it has neither loss nor gradient.
constexpr int32_t kNoTarget = -1;

// A token whose id lies outside of the vocabulary, and where it lies.
struct DamagedToken {
  std::string channel, file;  // "en", "data/en.bin"
  int64_t offset = 0;         // in the file, bytes
  std::string why;            // "token 17 is id 70000, expected ids below the vocabulary of 65536"
  bool operator==(const DamagedToken&) const = default;
};

class Channel {
 public:
  // `bytes` may be null: then bytes_of() knows only what the token file says. `valid` null: the tail of `tokens` is
  // held out.
  Channel(ChannelOptions options, std::shared_ptr<const IndexedDataset> tokens,
          std::shared_ptr<const TokenBytes> bytes, std::shared_ptr<const IndexedDataset> valid = nullptr);
  // A text without end: its sequences are those of of_epoch(). `valid` null: nothing is held out.
  Channel(ChannelOptions options, std::shared_ptr<const Spool> spool, std::shared_ptr<const TokenBytes> bytes,
          std::shared_ptr<const IndexedDataset> valid = nullptr);

  const std::string& name() const { return options_.name; }
  double weight() const { return options_.weight; }
  void set_weight(double weight) { options_.weight = weight; }  // while the mixture is made (mixture.h)
  int64_t seq_len() const { return options_.seq_len; }
  const IndexedDataset& tokens() const { return *tokens_; }
  int64_t num_tokens() const { return tokens_ == nullptr ? 0 : tokens_->num_tokens(); }
  int64_t num_train_tokens() const { return num_train_tokens_; }
  int64_t num_valid_tokens() const {
    return valid_ == nullptr ? num_tokens() - num_train_tokens_ : valid_->num_tokens();
  }

  // The channel that the sequences of an epoch are of: this one, or of a text without end the epoch's window, which is there
  // (Spool::has()). Null: the text has ended before it.
  std::shared_ptr<const Channel> of_epoch(int64_t epoch) const;
  const Spool* spool() const { return spool_.get(); }  // null: its text is all there

  int64_t num_train_sequences() const;  // of an epoch
  std::vector<Window> train_windows(int64_t sequence) const;
  int64_t num_train_targets() const;  // of all training sequences, counted in the loss or not
  // read() where tokens may be damaged: the first that is; then `ids` has no meaning.
  std::optional<DamagedToken> try_read(int64_t first, std::span<int32_t> ids) const;
  // The sequences that the token of an offset in the file of ids is in: one or two.
  std::vector<int64_t> sequences_at(int64_t offset) const;

  int64_t num_valid_windows() const;
  int64_t num_valid_targets() const;  // all held-out tokens; one fewer if no token comes before them
  Window valid_window(int64_t window) const;
  // Any range of the stream that validation windows refer to; ids are checked against the vocabulary. A window needs
  // targets + 1 ids.
  void read_valid(int64_t first, std::span<int32_t> ids) const;
  // Any range of the training stream.
  void read(int64_t first, std::span<int32_t> ids) const;

  // Sets targets that do not count to kNoTarget; targets[i] is token first + 1 + i of the training stream, or of the one
  // that validation windows are of. Those of the loss mask (loss_mask.h) do not, nor the first of a document with packing.
  void mask_targets(int64_t first, std::span<int32_t> targets) const;
  void mask_valid_targets(int64_t first, std::span<int32_t> targets) const;
  // How many of the tokens [first, last) of that stream count.
  int64_t count_valid(int64_t first, int64_t last) const;

  const Objective* objective() const { return options_.objective.get(); }  // null: next-token prediction
  bool tells_documents_apart() const { return options_.document_mask; }
  // Of the tokens from `first` on, how many of them come before the start of each one's document; 0 for the document
  // that token `first` is in. Of the stream for training, and of that which windows are of.
  void document_starts(int64_t first, std::span<int32_t> starts) const;
  void valid_document_starts(int64_t first, std::span<int32_t> starts) const;

  // Bytes of text that the tokens [first, last) of the respective stream stand for, in that of windows those which
  // count; none if unknown.
  std::optional<int64_t> bytes_of(int64_t first, int64_t last) const { return bytes_->of(first, last); }
  std::optional<int64_t> valid_bytes_of(int64_t first, int64_t last) const;

 private:
  void mask_of(const IndexedDataset& tokens, int64_t first, std::span<uint8_t> counts) const;
  void leave_out(const IndexedDataset& tokens, int64_t first, std::span<int32_t> targets) const;
  std::vector<TokenRange> counted_ranges(int64_t first, int64_t last) const;
  void read_of(const IndexedDataset& tokens, int64_t first, std::span<int32_t> ids) const;
  std::optional<size_t> first_outside(std::span<const int32_t> ids) const;
  const IndexedDataset& valid_tokens() const { return valid_ == nullptr ? *tokens_ : *valid_; }

  ChannelOptions options_;
  std::shared_ptr<const Spool> spool_;  // null: the text is all there
  std::shared_ptr<const TokenBytes> token_bytes_;
  std::shared_ptr<const IndexedDataset> tokens_;          // null with a spool
  std::shared_ptr<const IndexedDataset> valid_;           // null: the tail of tokens_
  std::shared_ptr<const TextBytes> bytes_, valid_bytes_;  // valid_bytes_ is null where valid_ is
  std::shared_ptr<const BestFit> packing_;                // null: sequences are cut from the stream
  int64_t num_train_tokens_ = 0;
};

}  // namespace athanor::data

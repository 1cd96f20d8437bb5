#include "athanor/data/channel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::data {
namespace {

int64_t held_out(int64_t num_tokens, double valid_fraction) {
  // 0.07 * 100 is a little above 7 in binary: that must not hold out an eighth token.
  constexpr double kRounding = 1e-6;
  const double exact = static_cast<double>(num_tokens) * valid_fraction;
  return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(exact - kRounding)), 0, num_tokens);
}

void starts_of(const IndexedDataset& tokens, int64_t first, std::span<int32_t> starts) {
  int64_t next = tokens.document_of(first) + 1;
  int32_t start = 0;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t token = first + static_cast<int64_t>(i);
    for (; next < tokens.num_documents() && tokens.document_start(next) <= token; ++next)
      start = static_cast<int32_t>(tokens.document_start(next) - first);
    starts[i] = start;
  }
}

}  // namespace

Channel::Channel(ChannelOptions options, std::shared_ptr<const IndexedDataset> tokens,
                 std::shared_ptr<const TokenBytes> bytes, std::shared_ptr<const IndexedDataset> valid)
    : options_(std::move(options)),
      token_bytes_(bytes),
      tokens_(std::move(tokens)),
      valid_(std::move(valid)),
      bytes_(std::make_shared<TextBytes>(tokens_, bytes)),
      valid_bytes_(valid_ == nullptr ? nullptr : std::make_shared<TextBytes>(valid_, std::move(bytes))) {
  check(options_.seq_len >= 1, "channel '{}': got a seq_len of {}, expected at least 1", name(),
        options_.seq_len);
  check(options_.valid_fraction >= 0 && options_.valid_fraction <= 1,
        "channel '{}': got a valid_fraction of {}, expected 0 to 1", name(), options_.valid_fraction);
  check(options_.vocab_size >= 1, "channel '{}': got a vocabulary of {}, expected at least 1", name(),
        options_.vocab_size);
  check(num_tokens() > 0, "channel '{}': '{}' has no tokens, expected some text", name(), tokens_->prefix());
  if (valid_ != nullptr)
    check(valid_->num_tokens() > 0, "channel '{}': '{}' has no tokens, expected some text to hold out",
          name(), valid_->prefix());
  num_train_tokens_ =
      num_tokens() - (valid_ == nullptr ? held_out(num_tokens(), options_.valid_fraction) : 0);
  if (options_.best_fit)
    packing_ = std::make_shared<BestFit>(tokens_->document_starts_before(num_train_tokens_), seq_len());
  if (weight() > 0 && num_train_sequences() == 0 && options_.best_fit)
    throw Error(fmt::format("channel '{}': got no document of two tokens in the {} to train on, expected one",
                            name(), num_train_tokens_),
                "data.packing = \"best-fit\" needs documents in which something can be predicted");
  if (weight() > 0 && num_train_sequences() == 0)
    throw Error(
        fmt::format(
            "channel '{}': got {} tokens to train on ({} in all, valid_fraction {}), expected at least {} "
            "(seq_len {} + 1)",
            name(), num_train_tokens_, num_tokens(), options_.valid_fraction, options_.seq_len + 1,
            options_.seq_len),
        "give the channel more text, or lower data.seq_len or data.valid_fraction");
}

Channel::Channel(ChannelOptions options, std::shared_ptr<const Spool> spool,
                 std::shared_ptr<const TokenBytes> bytes, std::shared_ptr<const IndexedDataset> valid)
    : options_(std::move(options)),
      spool_(std::move(spool)),
      token_bytes_(std::move(bytes)),
      valid_(std::move(valid)),
      valid_bytes_(valid_ == nullptr ? nullptr : std::make_shared<TextBytes>(valid_, token_bytes_)) {
  check(spool_->shape().seq_len == seq_len(), "channel '{}': got a seq_len of {}, expected {} of its spool",
        name(), seq_len(), spool_->shape().seq_len);
  check(!options_.best_fit, "channel '{}': a text without end is cut from the stream, expected no packing",
        name());
}

std::shared_ptr<const Channel> Channel::of_epoch(int64_t epoch) const {
  if (spool_ == nullptr) return {std::shared_ptr<const Channel>(), this};
  auto window = spool_->window(epoch);
  if (window == nullptr) return nullptr;
  ChannelOptions of_window = options_;
  of_window.valid_fraction = 0.0;
  return std::make_shared<const Channel>(of_window, std::move(window), token_bytes_);
}

int64_t Channel::num_train_sequences() const {
  if (spool_ != nullptr) return spool_->shape().window;
  if (packing_ != nullptr) return packing_->num_sequences();
  return std::max<int64_t>(num_train_tokens_ - 1, 0) / seq_len();
}

int64_t Channel::num_train_targets() const {
  return packing_ != nullptr ? packing_->num_targets() : num_train_sequences() * seq_len();
}

std::vector<Window> Channel::train_windows(int64_t sequence) const {
  check(sequence >= 0 && sequence < num_train_sequences(), "channel '{}': sequence {}, expected 0 to {}",
        name(), sequence, num_train_sequences() - 1);
  if (packing_ != nullptr) return packing_->windows(sequence);
  return {{sequence * seq_len(), seq_len()}};
}

int64_t Channel::num_valid_targets() const {
  if (spool_ != nullptr && valid_ == nullptr) return 0;
  return valid_ == nullptr && num_train_tokens_ > 0 ? num_valid_tokens() : num_valid_tokens() - 1;
}

int64_t Channel::num_valid_windows() const {
  return (num_valid_targets() + seq_len() - 1) / seq_len();
}

Window Channel::valid_window(int64_t window) const {
  check(window >= 0 && window < num_valid_windows(), "channel '{}': validation window {}, expected 0 to {}",
        name(), window, num_valid_windows() - 1);
  const int64_t done = window * seq_len();
  return {(valid_ == nullptr ? std::max<int64_t>(num_train_tokens_ - 1, 0) : 0) + done,
          std::min(seq_len(), num_valid_targets() - done)};
}

void Channel::read(int64_t first, std::span<int32_t> ids) const {
  read_of(*tokens_, first, ids);
}

void Channel::read_valid(int64_t first, std::span<int32_t> ids) const {
  read_of(valid_tokens(), first, ids);
}

std::optional<size_t> Channel::first_outside(std::span<const int32_t> ids) const {
  // One comparison per id, without a branch, finds both negative ids and those that are too large.
  const auto limit = static_cast<uint32_t>(std::min<int64_t>(options_.vocab_size, INT32_MAX));
  bool bad = false;
  for (const int32_t id : ids) bad |= static_cast<uint32_t>(id) >= limit;
  if (!bad) [[likely]]
    return std::nullopt;
  return std::find_if(ids.begin(), ids.end(),
                      [&](int32_t id) { return static_cast<uint32_t>(id) >= limit; }) -
         ids.begin();
}

void Channel::read_of(const IndexedDataset& tokens, int64_t first, std::span<int32_t> ids) const {
  tokens.read(first, ids);
  if (const auto bad = first_outside(ids))
    fail("channel '{}': token {} of '{}' is id {}, expected ids below the vocabulary of {}", name(),
         first + static_cast<int64_t>(*bad), tokens.prefix(), ids[*bad], options_.vocab_size);
}

std::optional<DamagedToken> Channel::try_read(int64_t first, std::span<int32_t> ids) const {
  const auto damaged = [&](int64_t token, std::string why) {
    return DamagedToken{name(), tokens_->prefix() + ".bin", token * token_size_bytes(tokens_->type()),
                        std::move(why)};
  };
  for (size_t i = 0; tokens_->type() == TokenType::i64 && i < ids.size(); ++i) {
    const int64_t token = first + static_cast<int64_t>(i);
    try {
      tokens_->read(token, ids.subspan(i, 1));
    } catch (const Error& error) {  // of ids that do not fit in 32 bits
      return damaged(token, error.what());
    }
  }
  tokens_->read(first, ids);
  const auto bad = first_outside(ids);
  if (!bad) return std::nullopt;
  const int64_t token = first + static_cast<int64_t>(*bad);
  return damaged(token, fmt::format("token {} is id {}, expected ids below the vocabulary of {}", token,
                                    ids[*bad], options_.vocab_size));
}

std::vector<int64_t> Channel::sequences_at(int64_t offset) const {
  const int64_t token = offset / token_size_bytes(tokens_->type()), sequence = token / seq_len();
  if (packing_ != nullptr) return packing_->sequences_with(token);
  std::vector<int64_t> sequences;
  if (token % seq_len() == 0 && token > 0) sequences.push_back(sequence - 1);
  sequences.push_back(sequence);
  return sequences;
}

void Channel::document_starts(int64_t first, std::span<int32_t> starts) const {
  starts_of(*tokens_, first, starts);
}

void Channel::valid_document_starts(int64_t first, std::span<int32_t> starts) const {
  starts_of(valid_tokens(), first, starts);
}

// 1 for the tokens from `first` on that count as targets.
void Channel::mask_of(const IndexedDataset& tokens, int64_t first, std::span<uint8_t> counts) const {
  tokens.read_loss_mask(first, counts);
  if (packing_ == nullptr || counts.empty()) return;
  const int64_t end = first + static_cast<int64_t>(counts.size());
  int64_t document = tokens.document_of(first);
  if (tokens.document_start(document) < first) ++document;
  for (; document < tokens.num_documents() && tokens.document_start(document) < end; ++document)
    counts[static_cast<size_t>(tokens.document_start(document) - first)] = 0;
}

void Channel::leave_out(const IndexedDataset& tokens, int64_t first, std::span<int32_t> targets) const {
  if (!tokens.has_loss_mask() && packing_ == nullptr) return;
  std::vector<uint8_t> counts(targets.size());
  mask_of(tokens, first + 1, counts);
  for (size_t i = 0; i < targets.size(); ++i)
    if (counts[i] == 0) targets[i] = kNoTarget;
}

void Channel::mask_targets(int64_t first, std::span<int32_t> targets) const {
  leave_out(*tokens_, first, targets);
}

void Channel::mask_valid_targets(int64_t first, std::span<int32_t> targets) const {
  leave_out(valid_tokens(), first, targets);
}

// The tokens of [first, last) that count, as runs.
std::vector<TokenRange> Channel::counted_ranges(int64_t first, int64_t last) const {
  const IndexedDataset& tokens = valid_tokens();
  if (!tokens.has_loss_mask() && packing_ == nullptr) return {{first, last}};
  std::vector<TokenRange> ranges;
  std::array<uint8_t, 4096> counts;
  for (int64_t at = first; at < last; at += static_cast<int64_t>(counts.size())) {
    const std::span part(counts.data(), static_cast<size_t>(std::min<int64_t>(counts.size(), last - at)));
    mask_of(tokens, at, part);
    for (size_t i = 0; i < part.size(); ++i) {
      const int64_t token = at + static_cast<int64_t>(i);
      if (part[i] == 0) continue;
      if (ranges.empty() || ranges.back().last != token) ranges.push_back({token, token});
      ranges.back().last = token + 1;
    }
  }
  return ranges;
}

int64_t Channel::count_valid(int64_t first, int64_t last) const {
  int64_t count = 0;
  for (const TokenRange& range : counted_ranges(first, last)) count += range.last - range.first;
  return count;
}

std::optional<int64_t> Channel::valid_bytes_of(int64_t first, int64_t last) const {
  return (valid_ == nullptr ? bytes_ : valid_bytes_)->of(counted_ranges(first, last));
}

}  // namespace athanor::data

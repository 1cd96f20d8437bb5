#include "athanor/data/loss_mask.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "athanor/base/check.h"

namespace athanor::data {
namespace {

constexpr std::string_view kLossMaskMagic("ATHLMASK");
constexpr int64_t kWordBits = 64;
constexpr size_t kBufferBytes = size_t{1} << 16;

int64_t words_of(int64_t tokens) {
  return (tokens + kWordBits - 1) / kWordBits;
}

void append_word(std::string& out, uint64_t value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace

void LossMaskWriter::flush() {
  file_->append(buffer_);
  buffer_.clear();
}

void LossMaskWriter::add_bit(uint64_t bit) {
  word_ |= bit << (tokens_ % kWordBits);
  counted_ += static_cast<int64_t>(bit);
  if (++tokens_ % kWordBits != 0) return;
  append_word(buffer_, word_);
  word_ = 0;
  if (buffer_.size() >= kBufferBytes) flush();
}

void LossMaskWriter::add_ones(int64_t count) {
  while (count > 0 && tokens_ % kWordBits != 0) {
    add_bit(1);
    --count;
  }
  for (; count >= kWordBits; count -= kWordBits) {
    append_word(buffer_, ~uint64_t{0});
    tokens_ += kWordBits;
    counted_ += kWordBits;
    if (buffer_.size() >= kBufferBytes) flush();
  }
  for (; count > 0; --count) add_bit(1);
}

// The tokens so far all count: their bits are written now.
void LossMaskWriter::start() {
  file_ = env_.create(path_);
  buffer_ = kLossMaskMagic;
  const int64_t before = tokens_;
  tokens_ = counted_ = 0;
  add_ones(before);
}

void LossMaskWriter::add(int64_t count, std::span<const uint8_t> mask) {
  check(mask.empty() || static_cast<int64_t>(mask.size()) == count,
        "'{}': got a loss mask of {} values, expected one for each of {} tokens", path_, mask.size(), count);
  for (const uint8_t value : mask)
    check(value <= 1, "'{}': got {} in a loss mask, expected 0 or 1", path_, static_cast<int>(value));
  const bool all_count = std::find(mask.begin(), mask.end(), 0) == mask.end();
  if (!all_count && file_ == nullptr) start();
  if (file_ == nullptr) {
    tokens_ += count;
  } else if (all_count) {
    add_ones(count);
  } else {
    for (const uint8_t value : mask) add_bit(value);
  }
}

bool LossMaskWriter::finish() {
  if (file_ == nullptr) return false;
  if (tokens_ % kWordBits != 0) append_word(buffer_, word_);
  append_word(buffer_, static_cast<uint64_t>(tokens_));
  append_word(buffer_, static_cast<uint64_t>(counted_));
  flush();
  file_->sync();
  file_->close();
  return true;
}

LossMask::LossMask(const std::string& path, int64_t num_tokens)
    : path_(path), file_(path), num_tokens_(num_tokens) {
  const int64_t words = words_of(num_tokens);
  const uint64_t expected_bytes = kLossMaskMagic.size() + static_cast<uint64_t>(words + 2) * sizeof(uint64_t);
  bool fits = file_.size_bytes() == expected_bytes &&
              std::memcmp(file_.data(), kLossMaskMagic.data(), kLossMaskMagic.size()) == 0 &&
              word(words) == static_cast<uint64_t>(num_tokens) &&
              word(words + 1) <= static_cast<uint64_t>(num_tokens);
  if (fits && num_tokens % kWordBits != 0) fits = word(words - 1) >> (num_tokens % kWordBits) == 0;
  if (!fits)
    throw Error(fmt::format("'{}': is not the loss mask of {} tokens", path, num_tokens),
                "remove it if all tokens count, or make the token file again");
  num_counted_ = static_cast<int64_t>(word(words + 1));
}

uint64_t LossMask::word(int64_t index) const {
  uint64_t value;
  std::memcpy(&value, file_.data() + kLossMaskMagic.size() + static_cast<uint64_t>(index) * sizeof value,
              sizeof value);
  return value;
}

void LossMask::read(int64_t first, std::span<uint8_t> out) const {
  check(first >= 0 && first <= num_tokens_ && static_cast<int64_t>(out.size()) <= num_tokens_ - first,
        "'{}': tokens {} to {} are outside of its {}", path_, first, first + static_cast<int64_t>(out.size()),
        num_tokens_);
  uint64_t bits = 0;
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t token = first + static_cast<int64_t>(i);
    if (i == 0 || token % kWordBits == 0) bits = word(token / kWordBits) >> (token % kWordBits);
    out[i] = static_cast<uint8_t>(bits & 1);
    bits >>= 1;
  }
}

void LossMask::check_count() const {
  int64_t counted = 0;
  for (int64_t w = 0; w < words_of(num_tokens_); ++w) counted += std::popcount(word(w));
  check(counted == num_counted_, "'{}': {} tokens count, expected {} as its end says", path_, counted,
        num_counted_);
}

}  // namespace athanor::data

#include "athanor/documents/record_buffer.h"

#include <algorithm>
#include <cstring>

#include "athanor/documents/text_documents.h"

namespace athanor::documents {

int64_t count_lines(std::string_view text) {
  int64_t lines = 0;
  for (size_t at = text.find('\n'); at != std::string_view::npos; at = text.find('\n', at + 1)) ++lines;
  return lines;
}

bool RecordBuffer::fill() {
  constexpr size_t kBufferBytes = size_t{1} << 20;
  if (begin_ > 0) std::memmove(bytes_.data(), bytes_.data() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  if (bytes_.size() < end_ + kBufferBytes / 2 + kPaddingBytes)
    bytes_.resize(end_ + end_ / 2 + kBufferBytes + kPaddingBytes);
  const size_t got = source_.read(bytes_.data() + end_, bytes_.size() - kPaddingBytes - end_);
  end_ += got;
  return got > 0;
}

void RecordBuffer::skip_byte_order_mark() {
  while (end_ - begin_ < kByteOrderMark.size())
    if (!fill()) break;
  if (waiting().starts_with(kByteOrderMark)) consume(kByteOrderMark.size(), 0);
}

uint64_t RecordBuffer::skip(uint64_t max_bytes) {
  uint64_t skipped = 0;
  while (true) {
    const auto part = static_cast<size_t>(std::min<uint64_t>(max_bytes - skipped, end_ - begin_));
    consume(part);
    skipped += part;
    if (skipped == max_bytes || !fill()) return skipped;
  }
}

void RecordBuffer::skip_line() {
  do {
    const size_t newline = waiting().find('\n');
    if (newline != std::string_view::npos) return consume(newline + 1, 1);
    consume(end_ - begin_, 0);
  } while (fill());
}

}  // namespace athanor::documents

// The bytes of a source that wait to be read, in one piece that grows only as far as its reader lets it.
//
//   RecordBuffer buffer(source);
//   while (buffer.waiting().find('\n') == std::string_view::npos && buffer.fill()) continue;
//   buffer.consume(buffer.waiting().find('\n') + 1);
//
// fill() and consume() end the life of what waiting() returned. Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "athanor/documents/byte_source.h"

namespace athanor::documents {

int64_t count_lines(std::string_view text);  // its line feeds

class RecordBuffer {
 public:
  // Behind what waits there are so many more bytes that may be read, whatever they hold.
  static constexpr size_t kPaddingBytes = 64;

  explicit RecordBuffer(ByteSource& source) : source_(source) {}

  std::string_view waiting() const { return std::string_view(bytes_).substr(begin_, end_ - begin_); }
  char* data() { return bytes_.data() + begin_; }  // of waiting(); its bytes may be changed
  bool fill();                                     // reads on behind what waits; false at the end
  void consume(size_t size_bytes) { consume(size_bytes, count_lines(waiting().substr(0, size_bytes))); }
  void consume(size_t size_bytes, int64_t lines) {
    begin_ += size_bytes;
    line_ += lines;
  }
  int64_t line() const { return line_; }  // of the first byte that waits, from 1

  void skip_byte_order_mark();        // at the start of a file
  uint64_t skip(uint64_t max_bytes);  // consumes so many without holding them; fewer only at the end
  void skip_line();                   // consumes a line and its end without holding it

 private:
  ByteSource& source_;
  std::string bytes_;  // [begin_, end_) waits
  size_t begin_ = 0, end_ = 0;
  int64_t line_ = 1;
};

}  // namespace athanor::documents

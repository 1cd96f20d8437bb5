#include "athanor/documents/text_documents.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/documents/record_buffer.h"

namespace athanor::documents {
namespace {

constexpr size_t kTextChunkBytes = size_t{1} << 20;
constexpr std::string_view kBlanks = " \t\r\n\f\v";

// Length of the valid UTF-8 sequence at the start of text, 0 where there is none.
size_t utf8_sequence(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xC2 && lead < 0xE0   ? 2
                        : (lead & 0xF0) == 0xE0       ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // Overlong forms, surrogates and code points above 10FFFF show in the second byte.
  const unsigned char second = byte(1);
  const bool legal = !(lead == 0xE0 && second < 0xA0) && !(lead == 0xED && second > 0x9F) &&
                     !(lead == 0xF0 && second < 0x90) && !(lead == 0xF4 && second > 0x8F);
  return legal ? length : 0;
}

std::string_view without_blanks(std::string_view line) {
  const size_t first = line.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return line.substr(first, line.find_last_not_of(kBlanks) - first + 1);
}

struct BadByte {
  size_t offset = 0;
  int64_t line = 0;  // from the start of the text
};

BadByte first_bad_byte(std::string_view text) {
  size_t offset = 0;
  while (offset < text.size()) {
    const size_t length = utf8_sequence(text.substr(offset));
    if (length == 0) break;
    offset += length;
  }
  return {offset, count_lines(text.substr(0, offset))};
}

// Not a RecordBuffer: a line has no limit here, for the file may be a document of one line.
class TextSplitter {
 public:
  TextSplitter(ByteSource& source, const std::string& name, const std::vector<std::string>& separators,
               const RecordOptions& options, const RecordCallback& callback)
      : source_(source), name_(name), separators_(separators), options_(options), callback_(callback) {
    for (const std::string& separator : separators) longest_ = std::max(longest_, separator.size());
  }

  TextReport run() {
    while (fill()) {
      if (place_.byte == 0 && text().starts_with(kByteOrderMark)) drop(kByteOrderMark.size());
      split();
    }
    end_of_line(end_);  // the last line may have no line end
    deliver(end_);
    return report_;
  }

 private:
  std::string_view text() const { return std::string_view(buffer_).substr(begin_, end_ - begin_); }

  // Reads on; the waiting text moves to the front.
  bool fill() {
    if (too_long_ || end_ - begin_ > options_.max_bytes) drop_too_long();
    if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    line_ -= begin_;
    scanned_ -= begin_;
    end_ -= begin_;
    begin_ = 0;
    if (buffer_.size() - end_ < kTextChunkBytes) buffer_.resize(end_ + end_ / 2 + kTextChunkBytes);
    size_t wanted = buffer_.size() - end_;
    // Enough for the mark at the very start, which is three bytes.
    bool any = false;
    do {
      const size_t got = source_.read(buffer_.data() + end_, wanted);
      if (got == 0) break;
      any = true;
      end_ += got;
      wanted -= got;
    } while (end_ < kByteOrderMark.size() && place_.byte == 0);
    return any;
  }

  void split() {
    while (scanned_ < end_) {
      const void* newline = std::memchr(buffer_.data() + scanned_, '\n', end_ - scanned_);
      if (newline == nullptr) {
        scanned_ = end_;
        return;
      }
      scanned_ = static_cast<size_t>(static_cast<const char*>(newline) - buffer_.data()) + 1;
      end_of_line(scanned_);
    }
  }

  // A line [line_, line_end) is whole, unless its start was dropped.
  void end_of_line(size_t line_end) {
    const std::string_view line(buffer_.data() + line_, line_end - line_);
    if (longest_ > 0 && !line_is_cut_ && line.size() <= longest_ + kBlanksAround) {
      const std::string_view word = without_blanks(line);
      if (!word.empty() && std::find(separators_.begin(), separators_.end(), word) != separators_.end()) {
        deliver(line_);
        ++report_.separator_lines;
        drop(line_end - begin_);
      }
    }
    line_is_cut_ = false;
    line_ = line_end;
  }

  // Tells a document that is too long, and drops what waits of it but for the start of a line that may be a separator.
  void drop_too_long() {
    if (!too_long_) refuse_too_long();
    too_long_ = true;
    line_is_cut_ |= end_ - line_ > longest_ + kBlanksAround;
    drop((line_is_cut_ ? end_ : line_) - begin_);
  }

  void deliver(size_t document_end) {
    const std::string_view document(buffer_.data() + begin_, document_end - begin_);
    // A file of blanks alone is a document, a part of blanks alone stands around separators.
    const bool part = report_.separator_lines > 0 || document_end < end_;
    if (!too_long_ && !document.empty()) {
      if (document.size() > options_.max_bytes)
        refuse_too_long();
      else if (part && without_blanks(document).empty())
        ++report_.blank_parts;
      else if (is_clean(document))
        callback_(document, {.line = part ? place_.line : 0});
    }
    too_long_ = false;
    drop(document.size());
  }

  bool is_clean(std::string_view document) const {
    if (!simdjson::validate_utf8(document.data(), document.size())) {
      const BadByte bad = first_bad_byte(document);
      const std::string where =
          fmt::format("not UTF-8 at byte {} (line {}): got 0x{:02x}", place_.byte + bad.offset,
                      place_.line + bad.line, static_cast<unsigned char>(document[bad.offset]));
      refuse(kInvalidUtf8, where, "convert it first, for example: iconv -f latin1 -t utf-8 OLD > NEW");
      return false;
    }
    if (const size_t zero = document.find('\0'); zero != std::string_view::npos) {
      refuse(kNulByte, fmt::format("a zero byte at byte {} (line {}), expected UTF-8 text",
                                   place_.byte + zero, place_.line + count_lines(document.substr(0, zero))));
      return false;
    }
    return true;
  }

  // Returns only if somebody listens.
  void refuse(std::string_view kind, const std::string& detail, const std::string& hint = "") const {
    if (!options_.refused)
      throw RecordError(fmt::format("'{}': {}", name_, detail), {std::string(kind), detail}, hint);
    options_.refused({.line = place_.line}, {std::string(kind), detail});
  }
  void refuse_too_long() const {
    refuse(kTooLong, fmt::format("line {}: a document of more than {} bytes, expected smaller ones",
                                 place_.line, options_.max_bytes));
  }

  void drop(size_t size_bytes) {
    place_.line += count_lines(text().substr(0, size_bytes));
    place_.byte += size_bytes;
    begin_ += size_bytes;
    line_ = std::max(line_, begin_);
    scanned_ = std::max(scanned_, begin_);
  }

  static constexpr size_t kBlanksAround = 64;  // longer lines are no separator, and not worth a look

  ByteSource& source_;
  const std::string& name_;
  const std::vector<std::string>& separators_;
  const RecordOptions& options_;
  const RecordCallback& callback_;
  size_t longest_ = 0;
  std::string buffer_;  // [begin_, end_) waits, lines before scanned_ are known
  size_t begin_ = 0, line_ = 0, scanned_ = 0, end_ = 0;  // line_: where the last line starts
  bool too_long_ = false;     // the document that waits was told as too long; its start is gone
  bool line_is_cut_ = false;  // the start of the line at line_ is gone
  TextPlace place_;           // of begin_
  TextReport report_;
};

}  // namespace

void check_utf8(std::string_view text, const std::string& name, const TextPlace& place) {
  if (simdjson::validate_utf8(text.data(), text.size())) return;
  const BadByte bad = first_bad_byte(text);
  throw Error(fmt::format("'{}': not UTF-8 at byte {} (line {}): got 0x{:02x}", name, place.byte + bad.offset,
                          place.line + bad.line,
                          bad.offset < text.size() ? static_cast<unsigned char>(text[bad.offset]) : 0),
              "convert it first, for example: iconv -f latin1 -t utf-8 OLD > NEW");
}

TextReport for_each_text_document(ByteSource& source, const std::string& name,
                                  const std::vector<std::string>& separators, const RecordOptions& options,
                                  const RecordCallback& callback) {
  return TextSplitter(source, name, separators, options, callback).run();
}

}  // namespace athanor::documents

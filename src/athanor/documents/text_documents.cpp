#include "athanor/documents/text_documents.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>

#include "athanor/base/check.h"

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

class TextSplitter {
 public:
  TextSplitter(ByteSource& source, const std::string& name, const std::vector<std::string>& separators,
               const std::function<void(std::string_view, int64_t)>& callback)
      : source_(source), name_(name), separators_(separators), callback_(callback) {
    for (const std::string& separator : separators) longest_ = std::max(longest_, separator.size());
  }

  int64_t run() {
    while (fill()) {
      if (place_.byte == 0 && text().starts_with(kByteOrderMark)) drop(kByteOrderMark.size());
      split();
    }
    end_of_line(end_);  // the last line may have no line end
    deliver(end_);
    return separator_lines_;
  }

 private:
  std::string_view text() const { return std::string_view(buffer_).substr(begin_, end_ - begin_); }

  // Reads on; the waiting text moves to the front.
  bool fill() {
    if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    line_ -= begin_;
    scanned_ -= begin_;
    end_ -= begin_;
    begin_ = 0;
    check(end_ <= kMaxDocumentBytes, "'{}' line {}: a document of more than {} bytes, expected smaller ones",
          name_, place_.line, kMaxDocumentBytes);
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

  // A line [line_, line_end) is whole.
  void end_of_line(size_t line_end) {
    constexpr size_t kBlanksAround = 64;  // longer lines are no separator, and not worth a look
    const std::string_view line(buffer_.data() + line_, line_end - line_);
    if (longest_ > 0 && line.size() <= longest_ + kBlanksAround) {
      const std::string_view word = without_blanks(line);
      if (!word.empty() && std::find(separators_.begin(), separators_.end(), word) != separators_.end()) {
        deliver(line_);
        ++separator_lines_;
        drop(line_end - begin_);
      }
    }
    line_ = line_end;
  }

  void deliver(size_t document_end) {
    const std::string_view document(buffer_.data() + begin_, document_end - begin_);
    check_utf8(document, name_, place_);
    if (const size_t zero = document.find('\0'); zero != std::string_view::npos)
      fail("'{}': a zero byte at byte {} (line {}), expected UTF-8 text", name_, place_.byte + zero,
           place_.line +
               std::count(document.begin(), document.begin() + static_cast<std::ptrdiff_t>(zero), '\n'));
    // A file of blanks alone is a document, a part of blanks alone stands around separators.
    const bool part = separator_lines_ > 0 || document_end < end_;
    if (!document.empty() && !(part && without_blanks(document).empty()))
      callback_(document, part ? place_.line : 0);
    drop(document.size());
  }

  void drop(size_t size_bytes) {
    const auto from = buffer_.begin() + static_cast<std::ptrdiff_t>(begin_);
    place_.line += std::count(from, from + static_cast<std::ptrdiff_t>(size_bytes), '\n');
    place_.byte += size_bytes;
    begin_ += size_bytes;
    line_ = std::max(line_, begin_);
    scanned_ = std::max(scanned_, begin_);
  }

  ByteSource& source_;
  const std::string& name_;
  const std::vector<std::string>& separators_;
  const std::function<void(std::string_view, int64_t)>& callback_;
  size_t longest_ = 0;
  std::string buffer_;  // [begin_, end_) waits, lines before scanned_ are known
  size_t begin_ = 0, line_ = 0, scanned_ = 0, end_ = 0;  // line_: where the last line starts
  TextPlace place_;                                      // of begin_
  int64_t separator_lines_ = 0;
};

}  // namespace

void check_utf8(std::string_view text, const std::string& name, const TextPlace& place) {
  if (simdjson::validate_utf8(text.data(), text.size())) return;
  size_t offset = 0;
  int64_t line = place.line;
  while (offset < text.size()) {
    const size_t length = utf8_sequence(text.substr(offset));
    if (length == 0) break;
    if (text[offset] == '\n') ++line;
    offset += length;
  }
  throw Error(fmt::format("'{}': not UTF-8 at byte {} (line {}): got 0x{:02x}", name, place.byte + offset,
                          line, offset < text.size() ? static_cast<unsigned char>(text[offset]) : 0),
              "convert it first, for example: iconv -f latin1 -t utf-8 OLD > NEW");
}

int64_t for_each_text_document(ByteSource& source, const std::string& name,
                               const std::vector<std::string>& separators,
                               const std::function<void(std::string_view text, int64_t line)>& callback) {
  return TextSplitter(source, name, separators, callback).run();
}

}  // namespace athanor::documents

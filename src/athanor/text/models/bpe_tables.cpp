#include "athanor/text/models/bpe_tables.h"

#include <algorithm>
#include <array>

#include "athanor/text/unicode.h"

namespace athanor::text::models {
namespace {

// Bytes that end the plain part of a string: quote, backslash, controls; and whether a byte is not ASCII.
enum ByteKind : uint8_t { plain, ends_plain, not_ascii };

constexpr auto kByteKinds = [] {
  std::array<ByteKind, 256> kinds{};
  for (size_t byte = 0; byte < 256; ++byte)
    kinds[byte] = byte < 0x20 || byte == '"' || byte == '\\' ? ends_plain : byte < 0x80 ? plain : not_ascii;
  return kinds;
}();

constexpr size_t kMaxSkippedDepth = 64;

// Reads from left to right. Each function returns false where the text is not what it reads.
class TableReader {
 public:
  explicit TableReader(std::string_view text) : text_(text) {}

  bool read(BpeTables& tables) {
    bool has_model = false;
    return read_object([&](std::string_view key) {
             if (key != "model") return skip_value();
             return !std::exchange(has_model, true) && read_model(tables);
           }) &&
           tables.places.size() == 2;
  }

 private:
  bool read_model(BpeTables& tables) {
    bool has_vocab = false, has_merges = false;
    const auto placed = [&](bool& is_read, const auto& read_table) {
      skip_space();
      const size_t begin = at_;
      if (std::exchange(is_read, true) || !read_table()) return false;
      tables.places.push_back({begin, at_});
      return true;
    };
    return read_object([&](std::string_view key) {
      if (key == "vocab") return placed(has_vocab, [&] { return read_vocab(tables); });
      if (key == "merges") return placed(has_merges, [&] { return read_merges(tables); });
      std::string_view type;
      if (key == "type") return read_string(type, tables.storage) && type == "BPE";
      return skip_value();
    });
  }

  bool read_vocab(BpeTables& tables) {
    if (!take('{')) return false;
    if (take('}')) return true;
    do {
      std::string_view token;
      int64_t id = 0;
      if (!read_string(token, tables.storage) || !take(':') || !read_id(id)) return false;
      tables.vocab.emplace_back(token, id);
    } while (take(','));
    return take('}');
  }

  bool read_merges(BpeTables& tables) {
    if (!take('[')) return false;
    if (take(']')) return true;
    do {
      std::string_view left, right;
      if (take('[')) {
        if (!read_string(left, tables.storage) || !take(',') || !read_string(right, tables.storage) ||
            !take(']'))
          return false;
      } else {
        if (!read_string(left, tables.storage)) return false;
        const size_t space = left.find(' ');
        if (space == std::string_view::npos || left.find(' ', space + 1) != std::string_view::npos)
          return false;
        right = left.substr(space + 1);
        left = left.substr(0, space);
      }
      tables.merges.emplace_back(left, right);
    } while (take(','));
    return take(']');
  }

  // {"key": value, ...}; keys are given as they are written.
  template <typename ReadValue>
  bool read_object(const ReadValue& read_value) {
    if (!take('{')) return false;
    if (take('}')) return true;
    do {
      const size_t begin = (skip_space(), at_);
      if (!skip_string()) return false;
      const std::string_view key = text_.substr(begin + 1, at_ - begin - 2);
      if (!take(':') || !read_value(key)) return false;
    } while (take(','));
    return take('}');
  }

  // The tree of the rest finds what is wrong in such a value.
  bool skip_value() {
    skip_space();
    size_t depth = 0;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"') {
        if (!skip_string()) return false;
      } else if (c == '{' || c == '[') {
        ++at_;
        if (++depth > kMaxSkippedDepth) return false;
      } else if (c == '}' || c == ']') {
        if (depth == 0) return true;
        ++at_;
        --depth;
      } else if (c == ',' && depth == 0) {
        return true;
      } else {
        ++at_;
      }
      if (depth == 0 && (c == '"' || c == '}' || c == ']')) return true;
    }
    return false;
  }

  bool skip_string() {
    if (at_ >= text_.size() || text_[at_] != '"') return false;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') return ++at_, true;
      if (text_[at_] == '\\') ++at_;
    }
    return false;
  }

  bool read_string(std::string_view& value, std::deque<std::string>& storage) {
    if (!take('"')) return false;
    const size_t begin = at_;
    uint8_t seen = 0;
    while (at_ < text_.size()) {
      const ByteKind kind = kByteKinds[static_cast<uint8_t>(text_[at_])];
      if (kind == ends_plain) break;
      seen |= kind;
      ++at_;
    }
    if (at_ >= text_.size()) return false;
    if (text_[at_] == '"') {
      value = text_.substr(begin, at_++ - begin);
      return seen == plain || find_invalid_utf8(value) == std::string_view::npos;
    }
    std::string& written = storage.emplace_back(text_.substr(begin, at_ - begin));
    while (at_ < text_.size() && text_[at_] != '"')
      if (!read_character(written)) return false;
    value = written;
    return take_here('"') && find_invalid_utf8(value) == std::string_view::npos;
  }

  bool read_character(std::string& written) {
    const char c = text_[at_++];
    if (c != '\\') return written.push_back(c), static_cast<uint8_t>(c) >= 0x20;
    if (at_ >= text_.size()) return false;
    constexpr std::string_view kEscapes = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const char escape = text_[at_++];
    if (const size_t which = kEscapes.find(escape); which != std::string_view::npos)
      return written.push_back(kMeant[which]), true;
    uint32_t high = 0, low = 0;
    if (escape != 'u' || !read_hex(high) || (high >= 0xDC00 && high < 0xE000)) return false;
    if (high < 0xD800 || high > 0xDFFF) return append_utf8(written, high), true;
    if (!take_here('\\') || !take_here('u') || !read_hex(low) || low < 0xDC00 || low > 0xDFFF) return false;
    return append_utf8(written, 0x10000 + ((high & 0x3FF) << 10 | (low & 0x3FF))), true;
  }

  bool read_hex(uint32_t& value) {
    if (text_.size() - at_ < 4) return false;
    for (const char c : text_.substr(at_, 4)) {
      const bool is_digit = c >= '0' && c <= '9';
      const char small = static_cast<char>(c | 0x20);
      if (!is_digit && (small < 'a' || small > 'f')) return false;
      value = value * 16 + static_cast<uint32_t>(is_digit ? c - '0' : small - 'a' + 10);
    }
    at_ += 4;
    return true;
  }

  bool read_id(int64_t& id) {
    skip_space();
    const size_t begin = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_)
      if (at_ - begin < 10) id = id * 10 + (text_[at_] - '0');
    const size_t digits = at_ - begin;
    return digits > 0 && digits <= 10 && (digits == 1 || text_[begin] != '0');
  }

  void skip_space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\r' || text_[at_] == '\t'))
      ++at_;
  }
  bool take_here(char c) {
    const bool is_there = at_ < text_.size() && text_[at_] == c;
    at_ += is_there;
    return is_there;
  }
  bool take(char c) {
    skip_space();
    return take_here(c);
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

std::optional<BpeTables> read_bpe_tables(std::string_view json) {
  BpeTables tables;
  if (!TableReader(json).read(tables)) return std::nullopt;
  std::ranges::sort(tables.places, {}, &ByteSpan::begin);
  return tables;
}

}  // namespace athanor::text::models

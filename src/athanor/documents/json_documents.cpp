#include "athanor/documents/json_documents.h"

#include <simdjson.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/documents/json_syntax.h"
#include "athanor/documents/text_documents.h"

namespace athanor::documents {
namespace {

constexpr size_t kJsonChunkBytes = size_t{1} << 20;
constexpr int kEnd = -1;
constexpr size_t kEscapeBytes = 6;  // of \uXXXX

bool is_blank(std::string_view line) {
  return line.find_first_not_of(kJsonBlanks) == std::string_view::npos;
}

std::string keys_of(const simdjson::dom::object& object) {
  constexpr int kShown = 20;
  std::string keys;
  int count = 0;
  for (const auto& field : object)
    if (++count <= kShown) keys += fmt::format("{}'{}'", keys.empty() ? "" : ", ", printable(field.key));
  if (count > kShown) keys += fmt::format(" and {} more", count - kShown);
  return keys.empty() ? "none" : keys;
}

const char* type_word(simdjson::dom::element_type type) {
  using Type = simdjson::dom::element_type;
  switch (type) {
    case Type::ARRAY:
      return "an array";
    case Type::OBJECT:
      return "an object";
    case Type::STRING:
      return "a string";
    case Type::BOOL:
      return "a boolean";
    case Type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

class JsonReader {
 public:
  JsonReader(ByteSource& source, const std::string& name, const std::string& text_key,
             const JsonCallback& callback)
      : source_(source), name_(name), text_key_(text_key), callback_(callback), parser_(kMaxDocumentBytes) {
    check(parser_.allocate(kJsonChunkBytes, kMaxJsonDepth) == simdjson::SUCCESS,
          "'{}': no memory to read JSON", name);
  }

  void read_lines() {
    for (bool more = begin(); more; more = fill()) {
      for (size_t from = searched_; from < end_;) {
        const void* newline = std::memchr(buffer_.data() + from, '\n', end_ - from);
        if (newline == nullptr) break;
        from = static_cast<size_t>(static_cast<const char*>(newline) - buffer_.data()) + 1;
        take_line(from - 1);
      }
      searched_ = end_;
    }
    if (begin_ < end_) take_line(end_);
  }

  void read_array() {
    begin();
    if (next() != '[') refuse(fmt::format("got {}, expected the '[' of an array", shown()));
    ++begin_;
    for (bool first = true; next() != ']'; first = false) {
      if (!first) {
        if (next() != ',')
          refuse(fmt::format("got {}, expected ',' or ']' behind an object of the array", shown()));
        ++begin_;
      }
      take_object();
    }
    ++begin_;
    if (next() != kEnd) refuse(fmt::format("got {} behind the array, expected nothing", shown()));
  }

  void read_values() {
    begin();
    while (next() != kEnd) take_object();
  }

 private:
  [[noreturn]] void refuse(const std::string& reason) const { throw JsonError(name_, line_, reason); }

  std::string_view waiting() const { return std::string_view(buffer_).substr(begin_, end_ - begin_); }
  std::string shown() const {
    constexpr size_t kShownBytes = 12;
    return begin_ == end_ ? "the end" : "'" + printable(waiting().substr(0, kShownBytes)) + "'";
  }

  // The first bytes, without a byte-order mark.
  bool begin() {
    bool more = false;
    while (end_ < kByteOrderMark.size() && fill()) more = true;
    if (waiting().starts_with(kByteOrderMark)) begin_ += kByteOrderMark.size();
    searched_ = begin_;
    return more;
  }

  // Reads on behind what waits, which moves to the front; the parser may touch the padding behind it.
  bool fill() {
    if (begin_ > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    searched_ -= std::min(searched_, begin_);
    end_ -= begin_;
    begin_ = 0;
    if (end_ > kMaxDocumentBytes)
      refuse(fmt::format("more than {} bytes, expected smaller objects", kMaxDocumentBytes));
    const size_t wanted = end_ + kJsonChunkBytes / 2 + simdjson::SIMDJSON_PADDING;
    if (buffer_.size() < wanted)
      buffer_.resize(end_ + end_ / 2 + kJsonChunkBytes + simdjson::SIMDJSON_PADDING);
    const size_t got =
        source_.read(buffer_.data() + end_, buffer_.size() - simdjson::SIMDJSON_PADDING - end_);
    end_ += got;
    return got > 0;
  }

  void take_line(size_t line_end) {
    const std::string_view line(buffer_.data() + begin_, line_end - begin_);
    if (!is_blank(line)) hand_on(buffer_.data() + begin_, line.size());
    begin_ = line_end + 1;
    ++line_;
    begin_ = std::min(begin_, end_);
  }

  // The next byte that is not blank, where begin_ then is; kEnd at the end.
  int next() {
    while (true) {
      for (; begin_ < end_; ++begin_) {
        const char c = buffer_[begin_];
        if (kJsonBlanks.find(c) == std::string_view::npos) return static_cast<unsigned char>(c);
        line_ += c == '\n';
      }
      if (!fill()) return kEnd;
    }
  }

  void take_object() {
    if (next() != '{')
      refuse(fmt::format("got {}, expected an object {{\"{}\": \"...\"}}", shown(), text_key_));
    JsonExtent extent;
    size_t size_bytes = 0;
    while (true) {
      size_bytes += extent.take(waiting().substr(size_bytes));
      if (extent.done()) break;
      if (!fill()) refuse("ends in the middle of an object");
    }
    const std::string_view object = waiting().substr(0, size_bytes);
    const int64_t lines = std::count(object.begin(), object.end(), '\n');
    hand_on(buffer_.data() + begin_, size_bytes);
    line_ += lines;
    begin_ += size_bytes;
  }

  // The bytes may be changed.
  void hand_on(char* bytes, size_t size_bytes) {
    simdjson::dom::element element;
    bool numbers = true;
    const auto code = parse(bytes, size_bytes, element, numbers);
    if (code == simdjson::STRING_ERROR && took_lone_surrogates(bytes, size_bytes, numbers)) return;
    if (code != simdjson::SUCCESS) refuse(fault_of({bytes, size_bytes}, code));
    take(element, numbers, callback_);
  }

  // numbers turns false where some are too large for the parser: all then read 0.
  simdjson::error_code parse(char* bytes, size_t size_bytes, simdjson::dom::element& element, bool& numbers) {
    const auto code = parser_.parse(bytes, size_bytes, false).get(element);
    if (code != simdjson::NUMBER_ERROR) return code;
    numbers = false;
    blank_json_numbers(bytes, size_bytes);
    return parser_.parse(bytes, size_bytes, false).get(element);
  }

  // JSON's grammar allows lone surrogates, which stand for no character; outside of the text they are ignored. Returns
  // false, without calling back, if the object has another fault or no lone surrogate.
  bool took_lone_surrogates(char* bytes, size_t size_bytes, bool numbers) {
    const auto lone = lone_surrogates({bytes, size_bytes});
    if (lone.empty()) return false;
    const std::string first(bytes + lone.front(), kEscapeBytes);
    // The object is read with two different replacements: if the text differs, it contains a lone surrogate.
    const char* const places[] = {R"(\u003f)", R"(\ufffd)"};
    std::array<std::string, 2> texts;
    JsonPlace place;
    for (size_t i = 0; i < texts.size(); ++i) {
      for (const size_t at : lone) std::memcpy(bytes + at, places[i], kEscapeBytes);
      simdjson::dom::element element;
      if (parse(bytes, size_bytes, element, numbers) != simdjson::SUCCESS) return false;
      take(element, numbers, [&](std::string_view text, const JsonPlace& found) {
        texts[i] = text;
        place = found;
      });
    }
    if (texts[0] != texts[1])
      refuse(
          fmt::format("'{}' holds the lone surrogate {}, which stands for no character", text_key_, first));
    callback_(texts[1], place);
    return true;
  }

  void take(simdjson::dom::element element, bool numbers, const JsonCallback& callback) const {
    simdjson::dom::object object;
    if (element.get(object) != simdjson::SUCCESS)
      refuse(fmt::format("got a JSON value that is not an object ({}), expected {{\"{}\": \"...\"}}",
                         type_word(element.type()), text_key_));
    simdjson::dom::element value;
    int found = 0;
    for (const auto& field : object)
      if (field.key == text_key_ && ++found == 1) value = field.value;
    if (found == 0) refuse(fmt::format("no key '{}', got {}", text_key_, keys_of(object)));
    if (found > 1) refuse(fmt::format("the key '{}' stands there {} times, expected once", text_key_, found));
    std::string_view text;
    if (value.get(text) != simdjson::SUCCESS)
      refuse(fmt::format("'{}' is not a string but {}", text_key_, type_word(value.type())));
    callback(text, {.line = line_, .id = id_of(object, numbers)});
  }

  static std::string id_of(const simdjson::dom::object& object, bool numbers) {
    for (const auto& field : object) {
      if (field.key != "id") continue;
      if (field.value.is_string()) return std::string(field.value.get_string().value_unsafe());
      if (numbers && field.value.is_int64()) return std::to_string(field.value.get_int64().value_unsafe());
      if (numbers && field.value.is_uint64()) return std::to_string(field.value.get_uint64().value_unsafe());
      break;
    }
    return "";
  }

  static std::string fault_of(std::string_view bytes, simdjson::error_code code) {
    if (code == simdjson::DEPTH_ERROR)
      return fmt::format("nested deeper than {} levels, expected fewer", kMaxJsonDepth);
    const auto fault = json_fault(bytes);
    const size_t column = fault.value_or(0);
    const size_t from = std::min(column, bytes.size());
    constexpr size_t kShownBytes = 12;
    return fmt::format("not JSON: at byte {}{}: {}", column + 1,
                       from < bytes.size() ? " ('" + printable(bytes.substr(from, kShownBytes)) + "')" : "",
                       simdjson::error_message(code));
  }

  ByteSource& source_;
  const std::string& name_;
  const std::string& text_key_;
  const JsonCallback& callback_;
  simdjson::dom::parser parser_;
  std::string buffer_;  // [begin_, end_) waits; lines before searched_ are known
  size_t begin_ = 0, end_ = 0, searched_ = 0;
  int64_t line_ = 1;  // of begin_
};

// The layout of a text, judged by what follows its first value.
struct FirstValue {
  bool whole = false;  // it ends in the head
  bool valid = false;  // as far as the head goes
  bool one_line = false;
  char next = '\0';  // the next byte behind it that is not blank; 0: none
  bool next_on_new_line = false;
};

FirstValue first_value(std::string_view text, bool is_cut) {
  FirstValue first;
  JsonExtent extent;
  const size_t size_bytes = extent.take(text);
  const std::string_view value = text.substr(0, size_bytes);
  first.whole = extent.done();
  first.one_line = value.find('\n') == std::string_view::npos;
  const auto fault = json_fault(value);
  // A word or an escape that the head cuts in two is a fault shortly before its end.
  constexpr size_t kCutWord = 16;
  first.valid = !fault || (!first.whole && is_cut && *fault + kCutWord >= value.size());
  const std::string_view rest = text.substr(size_bytes);
  const size_t next = rest.find_first_not_of(kJsonBlanks);
  if (next != std::string_view::npos) {
    first.next = rest[next];
    first.next_on_new_line = rest.substr(0, next).find('\n') != std::string_view::npos;
  }
  return first;
}

}  // namespace

JsonError::JsonError(const std::string& name, int64_t line, const std::string& reason)
    : Error(fmt::format("'{}' line {}: {}", name, line, reason)), reason_(reason) {}

JsonLayout recognize_json(std::string_view head) {
  const bool is_cut = head.size() >= kFormatProbeBytes;
  if (head.starts_with(kByteOrderMark)) head.remove_prefix(kByteOrderMark.size());
  const size_t begin = head.find_first_not_of(kJsonBlanks);
  if (begin == std::string_view::npos) return JsonLayout::none;
  const std::string_view text = head.substr(begin);
  const bool array = text[0] == '[';
  if (text[0] != '{' && !array) return JsonLayout::none;

  const auto inner = [&](size_t from) { return text.find_first_not_of(kJsonBlanks, from); };
  size_t at = inner(1);
  if (array && at != std::string_view::npos) at = text[at] == '{' ? inner(at + 1) : std::string_view::npos;
  const bool meant = at != std::string_view::npos && text[at] == '"';  // {" or [{"

  const FirstValue first = first_value(text, is_cut);
  const bool followed = first.next == '{' || (first.next == '[' && first.next_on_new_line);
  const bool reads = first.valid && (first.next == '\0' || followed);
  if (!reads && !meant) return JsonLayout::none;
  if (array) return first.whole && first.next == '[' ? JsonLayout::lines : JsonLayout::array;
  const bool several_on_a_line = first.next != '\0' && !first.next_on_new_line && first.next == '{';
  const bool alone = first.whole && first.next == '\0' && !is_cut;
  if (first.one_line && !several_on_a_line && !(alone && first.valid)) return JsonLayout::lines;
  // Over several lines: an object laid out for reading, unless a line ends within a string, which no JSON does.
  return first.valid || first.whole ? JsonLayout::values : JsonLayout::lines;
}

void for_each_json_document(ByteSource& source, const std::string& name, const std::string& text_key,
                            JsonLayout layout, const JsonCallback& callback) {
  JsonReader reader(source, name, text_key, callback);
  if (layout == JsonLayout::array) return reader.read_array();
  if (layout == JsonLayout::values) return reader.read_values();
  reader.read_lines();
}

}  // namespace athanor::documents

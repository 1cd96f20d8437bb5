#include "athanor/documents/json_documents.h"

#include <simdjson.h>

#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/documents/json_record.h"
#include "athanor/documents/json_syntax.h"
#include "athanor/documents/record_buffer.h"
#include "athanor/documents/text_documents.h"

namespace athanor::documents {
namespace {

constexpr int kEnd = -1;

bool is_blank(std::string_view line) {
  return line.find_first_not_of(kJsonBlanks) == std::string_view::npos;
}

class JsonReader {
 public:
  JsonReader(ByteSource& source, const std::string& name, const RecordOptions& options,
             const RecordCallback& callback)
      : buffer_(source), name_(name), options_(options), callback_(callback), record_(name, options) {
    buffer_.skip_byte_order_mark();
  }

  void read_lines() {
    size_t searched = 0;    // so much of what waits holds no line end
    bool too_long = false;  // the line that waits has been told, and its start is gone
    while (true) {
      const std::string_view waiting = buffer_.waiting();
      const size_t newline = waiting.find('\n', searched);
      if (newline != std::string_view::npos) {
        if (!too_long) take_line(waiting.substr(0, newline));
        buffer_.consume(newline + 1, 1);
        searched = 0;
        too_long = false;
        continue;
      }
      searched = waiting.size();
      if (!too_long && searched > options_.max_bytes) {
        refuse_too_long();
        too_long = true;
      }
      if (too_long) {
        buffer_.consume(searched, 0);
        searched = 0;
      }
      if (!buffer_.fill()) break;
    }
    if (!too_long) take_line(buffer_.waiting());
  }

  void read_array() {
    bool on_object = false;  // a fault was skipped, up to an object
    if (next() == '[')
      buffer_.consume(1, 0);
    else if (skip_fault(fmt::format("got {}, expected the '[' of an array", shown())))
      on_object = true;
    else
      return;
    for (bool first = true; on_object || next() != ']'; first = false) {
      if (!first && !on_object) {
        if (next() == ',')
          buffer_.consume(1, 0);
        else if (!skip_fault(
                     fmt::format("got {}, expected ',' or ']' behind an object of the array", shown())))
          return;
      }
      if (!take_object()) return;
      on_object = false;
    }
    buffer_.consume(1, 0);
    if (next() != kEnd)
      refuse({std::string(kBrokenJson), fmt::format("got {} behind the array, expected nothing", shown())});
  }

  void read_values() {
    while (next() != kEnd)
      if (!take_object()) return;
  }

 private:
  // Returns only if somebody listens.
  void refuse(const Refusal& why) const { tell(RecordError(name_, buffer_.line(), why)); }
  void tell(const RecordError& error) const {
    if (!options_.refused) throw error;
    options_.refused({.line = buffer_.line()}, error.refusal());
  }
  void refuse_too_long() const {
    refuse({std::string(kTooLong),
            fmt::format("more than {} bytes, expected smaller objects", options_.max_bytes)});
  }

  std::string shown() const {
    constexpr size_t kShownBytes = 12;
    const std::string_view waiting = buffer_.waiting();
    return waiting.empty() ? "the end" : "'" + printable(waiting.substr(0, kShownBytes)) + "'";
  }

  // The next byte that is not blank, where what waits then begins; kEnd at the end.
  int next() {
    do {
      const std::string_view waiting = buffer_.waiting();
      const size_t found = waiting.find_first_not_of(kJsonBlanks);
      buffer_.consume(std::min(found, waiting.size()));
      if (found != std::string_view::npos) return static_cast<unsigned char>(waiting[found]);
    } while (buffer_.fill());
    return kEnd;
  }

  // Tells a fault between objects and moves on to the next one; false if there is none.
  bool skip_fault(const std::string& detail) {
    const int got = next();
    const bool value = got == '"' || got == '-' || (got >= '0' && got <= '9') || (got >= 'a' && got <= 'z');
    refuse({std::string(value ? kNotAnObject : kBrokenJson), detail});
    do {
      const std::string_view waiting = buffer_.waiting();
      const size_t found = waiting.find('{');
      buffer_.consume(std::min(found, waiting.size()));
      if (found != std::string_view::npos) return true;
    } while (buffer_.fill());
    return false;
  }

  void take_line(std::string_view line) {
    if (line.size() > options_.max_bytes) return refuse_too_long();
    if (!is_blank(line)) hand_on(line.size());
  }

  // The next object; false if there is none.
  bool take_object() {
    if (next() != '{' && !skip_fault(fmt::format("got {}, expected an object {{\"{}\": \"...\"}}", shown(),
                                                 options_.text_key)))
      return false;
    JsonExtent extent;
    size_t size_bytes = 0;
    bool too_long = false;
    while (true) {
      size_bytes += extent.take(buffer_.waiting().substr(size_bytes));
      if (!too_long && size_bytes > options_.max_bytes) {
        refuse_too_long();
        too_long = true;
      }
      if (extent.done()) break;
      if (too_long) {
        buffer_.consume(size_bytes);
        size_bytes = 0;
      }
      if (buffer_.fill()) continue;
      if (!too_long) refuse({std::string(kBrokenJson), "ends in the middle of an object"});
      buffer_.consume(size_bytes);
      return false;
    }
    const int64_t lines = count_lines(buffer_.waiting().substr(0, size_bytes));
    if (!too_long) hand_on(size_bytes);
    buffer_.consume(size_bytes, lines);
    return true;
  }

  // What waits begins with an object of so many bytes, which may be changed.
  void hand_on(size_t size_bytes) {
    try {
      record_.read(buffer_.data(), size_bytes, buffer_.line());
    } catch (const RecordError& error) {
      return tell(error);
    }
    callback_(record_.text(), record_.place());
  }

  RecordBuffer buffer_;
  const std::string& name_;
  const RecordOptions& options_;
  const RecordCallback& callback_;
  JsonRecord record_;
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
  if (array) return first.whole && followed ? JsonLayout::lines : JsonLayout::array;
  const bool several_on_a_line = first.next != '\0' && !first.next_on_new_line && first.next == '{';
  const bool alone = first.whole && first.next == '\0' && !is_cut;
  if (first.one_line && !several_on_a_line && !(alone && first.valid)) return JsonLayout::lines;
  // Over several lines: an object laid out for reading, unless a line ends within a string, which no JSON does.
  return first.valid || first.whole ? JsonLayout::values : JsonLayout::lines;
}

void for_each_json_document(ByteSource& source, const std::string& name, const RecordOptions& options,
                            JsonLayout layout, const RecordCallback& callback) {
  JsonReader reader(source, name, options, callback);
  if (layout == JsonLayout::array) return reader.read_array();
  if (layout == JsonLayout::values) return reader.read_values();
  reader.read_lines();
}

}  // namespace athanor::documents

#include "athanor/documents/wet_documents.h"

#include <fmt/core.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "athanor/base/human.h"
#include "athanor/documents/json_fields.h"
#include "athanor/documents/record_buffer.h"

namespace athanor::documents {
namespace {

constexpr std::string_view kWarcMark = "WARC/1.";
constexpr size_t kMaxWarcHeaderBytes = size_t{1} << 16;
constexpr uint64_t kNoLength = UINT64_MAX;

bool same_header_name(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](char x, char y) { return lower(x) == lower(y); });
}

std::string_view trimmed_header(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

struct WarcHeader {
  std::string type, id, url, date, language;
  uint64_t length = kNoLength;

  void set(std::string_view name, const std::string& bytes) {
    const std::string value = simdjson::validate_utf8(bytes.data(), bytes.size()) ? bytes : printable(bytes);
    if (same_header_name(name, "WARC-Type")) type = value;
    if (same_header_name(name, "WARC-Record-ID")) id = value;
    if (same_header_name(name, "WARC-Target-URI")) url = value;
    if (same_header_name(name, "WARC-Date")) date = value;
    if (same_header_name(name, "WARC-Identified-Content-Language")) language = value;
    if (!same_header_name(name, "Content-Length")) return;
    uint64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    length = error == std::errc() && end == value.data() + value.size() ? number : kNoLength;
  }

  std::string metadata() const {
    const std::array<std::pair<const char*, const std::string*>, 4> members = {
        {{"url", &url}, {"date", &date}, {"WARC-Record-ID", &id}, {"language", &language}}};
    std::string out = "{";
    for (const auto& [name, value] : members) {
      if (value->empty()) continue;
      if (out.size() > 1) out += ',';
      append_json_string(out, name);
      out += ':';
      append_json_string(out, *value);
    }
    return out + '}';
  }
};

class WetReader {
 public:
  WetReader(ByteSource& source, const std::string& name, const RecordOptions& options,
            const RecordCallback& callback)
      : buffer_(source), name_(name), options_(options), callback_(callback) {}

  void run() {
    while (to_next_record()) {
      line_ = buffer_.line();
      if (!take_header()) continue;
      if (header_.type == "conversion")
        take_text();
      else
        skip_record();
    }
  }

 private:
  // Over blank lines to the line that a record begins with; false at the end.
  bool to_next_record() {
    while (true) {
      const std::string_view waiting = buffer_.waiting();
      const size_t found = waiting.find_first_not_of("\r\n");
      buffer_.consume(std::min(found, waiting.size()));
      if (found != std::string_view::npos) return true;
      if (!buffer_.fill()) return false;
    }
  }

  // The header of a record, which is consumed; false if it is broken.
  bool take_header() {
    header_ = {};
    size_t at = 0;  // of the next line
    bool first = true;
    std::string name, value;
    while (true) {
      size_t newline = buffer_.waiting().find('\n', at);
      while (newline == std::string_view::npos && buffer_.waiting().size() < kMaxWarcHeaderBytes &&
             buffer_.fill())
        newline = buffer_.waiting().find('\n', at);
      if (newline == std::string_view::npos || newline > kMaxWarcHeaderBytes)
        return broken("a header that has no end, expected a blank line behind it");
      const std::string_view line = buffer_.waiting().substr(at, newline - at);
      at = newline + 1;
      if (first) {
        if (!line.starts_with(kWarcMark))
          return broken(fmt::format("got '{}', expected WARC/1.0", printable(line.substr(0, kShownBytes))));
        first = false;
        continue;
      }
      const bool blank = trimmed_header(line).empty();
      if (!blank && (line[0] == ' ' || line[0] == '\t')) {  // goes on with the line before
        value += ' ';
        value += trimmed_header(line);
        continue;
      }
      if (!name.empty()) header_.set(name, value);
      if (blank) break;
      const size_t colon = line.find(':');
      if (colon == std::string_view::npos)
        return broken(fmt::format("got the header line '{}', expected NAME: VALUE",
                                  printable(line.substr(0, kShownBytes))));
      name = trimmed_header(line.substr(0, colon));
      value = trimmed_header(line.substr(colon + 1));
    }
    if (header_.type.empty()) return broken("no WARC-Type in its header");
    if (header_.length == kNoLength)
      return broken("no Content-Length in its header, or one that is no number");
    buffer_.consume(at);
    return true;
  }

  void take_text() {
    any_text_ = true;
    if (header_.length > options_.max_bytes) {
      refuse(kTooLong,
             fmt::format("a text of {} bytes, expected at most {}", header_.length, options_.max_bytes));
      if (buffer_.skip(header_.length) < header_.length) refuse_cut();
      return;
    }
    const auto size_bytes = static_cast<size_t>(header_.length);
    while (buffer_.waiting().size() < size_bytes)
      if (!buffer_.fill()) {
        refuse_cut();
        return buffer_.consume(buffer_.waiting().size());
      }
    const std::string_view text = buffer_.waiting().substr(0, size_bytes);
    if (is_sound(text)) {
      place_.line = line_;
      place_.id = header_.id;
      if (options_.with_metadata) place_.metadata = header_.metadata();
      callback_(text, place_);
    }
    buffer_.consume(size_bytes);
  }

  bool is_sound(std::string_view text) const {
    if (!simdjson::validate_utf8(text.data(), text.size())) {
      refuse(kInvalidUtf8, "the text is not UTF-8");
      return false;
    }
    if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
      refuse(kNulByte, fmt::format("a zero byte at byte {} of the text", zero));
      return false;
    }
    return true;
  }

  void skip_record() {
    const std::string& type = header_.type;
    if (!any_text_ && (type == "response" || type == "request" || type == "resource" || type == "revisit"))
      throw RecordError(
          name_, line_,
          {std::string(kForeignFormat),
           fmt::format("a WARC archive of pages as they were fetched (type {}), expected WET, which has "
                       "their text",
                       type)});
    if (buffer_.skip(header_.length) < header_.length) refuse_cut();
  }

  void refuse_cut() const { refuse(kBrokenWarcRecord, "ends in the middle of the record"); }

  // Tells it and moves on to the next line that begins a record. Always false.
  bool broken(const std::string& detail) {
    refuse(kBrokenWarcRecord, detail);
    do {
      buffer_.skip_line();
      while (buffer_.waiting().size() < kWarcMark.size() && buffer_.fill()) continue;
    } while (!buffer_.waiting().empty() && !buffer_.waiting().starts_with(kWarcMark));
    return false;
  }

  // Returns only if somebody listens.
  void refuse(std::string_view kind, const std::string& detail) const {
    Refusal why{std::string(kind), detail};
    if (!options_.refused) throw RecordError(name_, line_, std::move(why));
    options_.refused({.line = line_, .id = header_.id}, why);
  }

  static constexpr size_t kShownBytes = 24;

  RecordBuffer buffer_;
  const std::string& name_;
  const RecordOptions& options_;
  const RecordCallback& callback_;
  WarcHeader header_;
  RecordPlace place_;
  int64_t line_ = 1;  // where the record begins
  bool any_text_ = false;
};

}  // namespace

bool is_warc(std::string_view head) {
  return head.starts_with(kWarcMark);
}

void for_each_wet_document(ByteSource& source, const std::string& name, const RecordOptions& options,
                           const RecordCallback& callback) {
  WetReader(source, name, options, callback).run();
}

}  // namespace athanor::documents

#include "athanor/documents/csv_documents.h"

#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "athanor/base/human.h"
#include "athanor/documents/csv_scanner.h"
#include "athanor/documents/file_format.h"
#include "athanor/documents/json_fields.h"
#include "athanor/documents/record_buffer.h"
#include "athanor/documents/text_key.h"

namespace athanor::documents {
namespace {

constexpr size_t kMaxCsvColumns = size_t{1} << 16;

// The delimiter that a header, or the beginning of a long one, has most of.
char found_delimiter(std::string_view header) {
  constexpr std::string_view kDelimiters = ",;\t";
  std::array<size_t, kDelimiters.size()> counts{};
  bool quoted = false;
  for (const char c : header) {
    quoted ^= c == '"';
    if (c == '\n' && !quoted) break;
    if (const size_t which = kDelimiters.find(c); !quoted && which != std::string_view::npos) ++counts[which];
  }
  return kDelimiters[static_cast<size_t>(std::max_element(counts.begin(), counts.end()) - counts.begin())];
}

class CsvReader {
 public:
  CsvReader(ByteSource& source, const std::string& name, const RecordOptions& options, char delimiter,
            const RecordCallback& callback)
      : buffer_(source),
        name_(name),
        options_(options),
        callback_(callback),
        key_(options.text_key),
        scanner_(delimiter == '\0' ? begin_and_find_delimiter() : delimiter, kMaxCsvColumns) {
    if (delimiter != '\0') buffer_.skip_byte_order_mark();
  }

  void run() {
    while (next_row()) {
      if (!is_blank_row()) take();
      end_row();
    }
  }

 private:
  char begin_and_find_delimiter() {
    buffer_.skip_byte_order_mark();
    while (buffer_.waiting().size() < kFormatProbeBytes && buffer_.fill()) continue;
    const std::string_view waiting = buffer_.waiting();
    return found_delimiter(waiting.substr(std::min(waiting.find_first_not_of("\r\n"), waiting.size())));
  }

  // The next row of at most max_bytes; false at the end.
  bool next_row() {
    bool at_end = false;
    while (true) {
      if (buffer_.waiting().empty() && !buffer_.fill()) return false;
      const CsvScanner::Found found = scanner_.scan(buffer_.waiting(), at_end);
      if (found == CsvScanner::Found::fault) {
        refuse(kBrokenCsvRow, fmt::format("field {}: {}", scanner_.count() + 1, scanner_.fault()));
        buffer_.skip_line();
        scanner_.restart();
        at_end = false;
      } else if (scanner_.size_bytes() > options_.max_bytes) {
        refuse_too_long();
        if (found == CsvScanner::Found::more) skip_rest();
        end_row();
        at_end = false;
      } else if (found == CsvScanner::Found::row) {
        return true;
      } else {
        at_end = !buffer_.fill();
      }
    }
  }

  // The rest of a row that is too long, which is not held.
  void skip_rest() {
    CsvScanner::Found found = CsvScanner::Found::more;
    for (bool at_end = false; found == CsvScanner::Found::more;
         found = scanner_.scan(buffer_.waiting(), at_end)) {
      const size_t seen = scanner_.size_bytes();
      buffer_.consume(seen);
      scanner_.forget(seen);
      at_end = !buffer_.fill();
    }
    if (found == CsvScanner::Found::fault) {
      buffer_.skip_line();
      scanner_.restart();
    }
  }

  void end_row() {
    buffer_.consume(std::min(scanner_.size_bytes(), buffer_.waiting().size()));
    scanner_.restart();
  }

  std::string_view row() const { return buffer_.waiting().substr(0, scanner_.size_bytes()); }
  bool is_blank_row() const {
    return scanner_.count() == 1 && row().find_first_not_of("\r\n") == std::string_view::npos;
  }

  void take() {
    if (columns_.empty())
      take_header();
    else if (is_sound())
      take_row();
  }

  // Returns only if somebody listens. Without a header no row can be read.
  void refuse(std::string_view kind, const std::string& detail) const {
    Refusal why{std::string(kind), detail};
    if (!options_.refused || columns_.empty()) throw RecordError(name_, buffer_.line(), std::move(why));
    options_.refused({.line = buffer_.line()}, why);
  }
  void refuse_too_long() const {
    refuse(kTooLong, fmt::format("a row of more than {} bytes, expected smaller ones", options_.max_bytes));
  }

  void take_header() {
    const auto fault = [&](std::string_view kind, const std::string& detail) {
      throw RecordError(name_, buffer_.line(), {std::string(kind), detail});
    };
    if (!simdjson::validate_utf8(row().data(), row().size()))
      fault(kInvalidUtf8, "not UTF-8 in the header, expected names of columns");
    if (scanner_.count() > kMaxCsvColumns)
      fault(kBrokenCsvRow,
            fmt::format("a header of {} columns, expected at most {}", scanner_.count(), kMaxCsvColumns));
    for (const CsvScanner::Field& field : scanner_.fields()) {
      append_csv_field(columns_.emplace_back(), row(), field);
      std::string& member = members_.emplace_back();
      append_json_string(member, columns_.back());
      member += ':';
    }
    for (const TextKey::Part& part : key_.parts()) {
      const auto times = std::count(columns_.begin(), columns_.end(), part.key);
      if (times == 0)
        fault(kNoTextKey, fmt::format("no column '{}', got {}", printable(part.key), shown_columns()));
      if (times > 1)
        fault(kTextKeyTwice, fmt::format("the column '{}' stands there {} times, expected once",
                                         printable(part.key), times));
      texts_.push_back(column_of(part.key));
    }
    if (std::find(columns_.begin(), columns_.end(), options_.id_key) != columns_.end())
      id_ = column_of(options_.id_key);
    for (size_t i = 0; i < columns_.size(); ++i)
      if (i != id_ && std::find(texts_.begin(), texts_.end(), i) == texts_.end()) others_.push_back(i);
    scanner_.keep(columns_.size());
  }

  size_t column_of(const std::string& name) const {
    return static_cast<size_t>(std::find(columns_.begin(), columns_.end(), name) - columns_.begin());
  }
  std::string shown_columns() const {
    constexpr size_t kShown = 20;
    std::string shown;
    for (size_t i = 0; i < std::min(columns_.size(), kShown); ++i)
      shown += fmt::format("{}'{}'", i == 0 ? "" : ", ", printable(columns_[i]));
    return columns_.size() > kShown ? fmt::format("{} and {} more", shown, columns_.size() - kShown) : shown;
  }

  bool is_sound() const {
    if (!simdjson::validate_utf8(row().data(), row().size())) {
      refuse(kInvalidUtf8, "not UTF-8");
      return false;
    }
    if (const size_t zero = row().find('\0'); zero != std::string_view::npos) {
      refuse(kNulByte, fmt::format("a zero byte at byte {} of the row", zero));
      return false;
    }
    if (scanner_.count() == columns_.size()) return true;
    refuse(kBrokenCsvRow,
           fmt::format("got {} fields, expected {} as in the header", scanner_.count(), columns_.size()));
    return false;
  }

  void take_row() {
    place_.line = buffer_.line();
    place_.id.clear();
    if (id_) append_csv_field(place_.id, row(), scanner_.fields()[*id_]);
    if (options_.with_metadata) take_metadata();
    const CsvScanner::Field& only = scanner_.fields()[texts_[0]];
    if (key_.is_plain() && !only.doubled)
      return callback_(row().substr(only.begin, only.end - only.begin), place_);
    text_.clear();
    for (size_t i = 0; i < texts_.size(); ++i) {
      text_ += key_.parts()[i].before;
      append_csv_field(text_, row(), scanner_.fields()[texts_[i]]);
    }
    text_ += key_.after();
    callback_(text_, place_);
  }

  void take_metadata() {
    std::string& out = place_.metadata;
    out = '{';
    for (const size_t column : others_) {
      const CsvScanner::Field& field = scanner_.fields()[column];
      if (out.size() > 1) out += ',';
      out += members_[column];
      field_.clear();
      append_csv_field(field_, row(), field);
      append_json_string(out, field_);
    }
    out += '}';
  }

  RecordBuffer buffer_;
  const std::string& name_;
  const RecordOptions& options_;
  const RecordCallback& callback_;
  TextKey key_;
  CsvScanner scanner_;
  std::vector<std::string> columns_, members_;  // members_: "name": as JSON
  std::vector<size_t> texts_, others_;          // columns of the text and of the metadata
  std::optional<size_t> id_;
  RecordPlace place_;
  std::string text_, field_;
};

}  // namespace

void for_each_csv_document(ByteSource& source, const std::string& name, const RecordOptions& options,
                           char delimiter, const RecordCallback& callback) {
  CsvReader(source, name, options, delimiter, callback).run();
}

}  // namespace athanor::documents

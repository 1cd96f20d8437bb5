#include "athanor/documents/csv_scanner.h"

namespace athanor::documents {

void CsvScanner::restart() {
  state_ = State::start;
  at_ = begin_ = count_ = 0;
  fields_.clear();
}

void CsvScanner::forget(size_t size_bytes) {
  at_ -= size_bytes;
  begin_ = 0;
  fields_.clear();
}

void CsvScanner::add(size_t end) {
  if (fields_.size() < max_fields_) fields_.push_back({begin_, end, doubled_});
  ++count_;
}

CsvScanner::Found CsvScanner::end_row(size_t field_end, size_t row_end) {
  add(field_end);
  at_ = row_end;
  return Found::row;
}

CsvScanner::Found CsvScanner::refuse(const char* fault) {
  fault_ = fault;
  return Found::fault;
}

CsvScanner::Found CsvScanner::scan(std::string_view row, bool at_end) {
  const size_t size = row.size();
  while (true) {
    switch (state_) {
      case State::start: {
        if (at_ == size && !at_end) return Found::more;
        const bool quoted = at_ < size && row[at_] == '"';
        at_ += quoted;
        begin_ = at_;
        doubled_ = false;
        state_ = quoted ? State::quoted : State::plain;
        break;
      }
      case State::plain: {
        while (at_ < size && row[at_] != delimiter_ && row[at_] != '\n') ++at_;
        if (at_ == size && !at_end) return Found::more;
        if (at_ == size || row[at_] == '\n') {
          const bool carriage_return = at_ > begin_ && row[at_ - 1] == '\r';
          return end_row(at_ - (carriage_return ? 1 : 0), at_ + (at_ < size ? 1 : 0));
        }
        add(at_++);
        state_ = State::start;
        break;
      }
      case State::quoted: {
        const size_t quote = row.find('"', at_);
        at_ = quote == std::string_view::npos ? size : quote + 1;
        if (quote != std::string_view::npos)
          state_ = State::behind_quote;
        else
          return at_end ? refuse("a quote that is never closed") : Found::more;
        break;
      }
      case State::behind_quote: {
        if (at_ == size) return at_end ? end_row(at_ - 1, at_) : Found::more;
        const char c = row[at_];
        if (c == '"') {
          doubled_ = true;
          ++at_;
          state_ = State::quoted;
        } else if (c == delimiter_) {
          add(at_++ - 1);
          state_ = State::start;
        } else if (c == '\n') {
          return end_row(at_ - 1, at_ + 1);
        } else if (c == '\r' && at_ + 1 == size) {
          return at_end ? end_row(at_ - 1, size) : Found::more;
        } else if (c == '\r' && row[at_ + 1] == '\n') {
          return end_row(at_ - 1, at_ + 2);
        } else {
          return refuse("text behind a closing quote");
        }
        break;
      }
    }
  }
}

void append_csv_field(std::string& out, std::string_view row, const CsvScanner::Field& field) {
  std::string_view rest = row.substr(field.begin, field.end - field.begin);
  if (field.doubled)
    for (size_t quote = rest.find('"'); quote != std::string_view::npos; quote = rest.find('"')) {
      out.append(rest.substr(0, quote + 1));
      rest.remove_prefix(quote + 2);  // past its double
    }
  out.append(rest);
}

}  // namespace athanor::documents

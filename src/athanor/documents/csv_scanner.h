// Finds the fields of a row of CSV whose bytes come in pieces (RFC 4180).
//
//   CsvScanner scanner(',', 100);
//   while (scanner.scan(row, at_end) == CsvScanner::Found::more) row = more_of_it();
//   for (const CsvScanner::Field& field : scanner.fields()) use(row.substr(field.begin, field.end - field.begin));
//
// Thread rule: plain data.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::documents {

class CsvScanner {
 public:
  enum class Found { more, row, fault };
  struct Field {
    size_t begin = 0, end = 0;  // in the row, without quotes around
    bool doubled = false;       // it has quotes inside, each written twice
  };

  // Only max_fields of a row are kept; all are counted.
  CsvScanner(char delimiter, size_t max_fields) : delimiter_(delimiter), max_fields_(max_fields) {}

  // `row` is what is there from the row's begin, at_end: and nothing follows. Goes on where the last call stopped.
  Found scan(std::string_view row, bool at_end);

  const std::vector<Field>& fields() const { return fields_; }
  size_t count() const { return count_; }
  size_t size_bytes() const { return at_; }  // of the row, its line end included; so far if it is not whole
  const char* fault() const { return fault_; }

  void restart();                  // for the next row
  void forget(size_t size_bytes);  // the first bytes of the row are gone, and its fields
  void keep(size_t max_fields) { max_fields_ = max_fields; }

 private:
  enum class State { start, plain, quoted, behind_quote };
  void add(size_t end);
  Found end_row(size_t field_end, size_t row_end);
  Found refuse(const char* fault);

  char delimiter_;
  bool doubled_ = false;
  State state_ = State::start;
  size_t max_fields_;
  size_t at_ = 0, begin_ = 0, count_ = 0;  // begin_: of the field
  std::vector<Field> fields_;
  const char* fault_ = "";
};

// Appends a field without the doubling of its quotes.
void append_csv_field(std::string& out, std::string_view row, const CsvScanner::Field& field);

}  // namespace athanor::documents

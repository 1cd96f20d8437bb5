// Reads the documents of a CSV file (RFC 4180): a text from each row.
//
//   for_each_csv_document(source, "a.csv", {.text_key = "body", .with_metadata = true}, '\0',
//                         [](std::string_view text, const RecordPlace& place) { ... });
//
// The first row names the columns. A field may stand in quotes; then it may hold delimiters, line breaks and doubled
// quotes. A quote within a field that does not begin with one is an ordinary character. Lines end in \n or \r\n; blank
// lines are skipped. The delimiter is a comma, a semicolon or a tab, whichever the header has most of, unless it is
// given. The metadata of a row are its other columns, as strings, but for the id. A byte-order mark at the start is
// dropped. One row is held in memory at a time.
//
// A broken row has more or fewer fields than the header, text behind a closing quote, or a quote that is never closed.
// Behind one of the last two reading goes on at the next line of the file.
//
// Thread rule: the callback runs in the calling thread. Errors: RecordError naming the file and the line for a broken
// row and for one that is too long, is not UTF-8 or has a zero byte (record.h); always for a header without a column of
// the text, or with two.
#pragma once

#include <string>

#include "athanor/documents/byte_source.h"
#include "athanor/documents/record.h"

namespace athanor::documents {

// delimiter 0: found from the header.
void for_each_csv_document(ByteSource& source, const std::string& name, const RecordOptions& options,
                           char delimiter, const RecordCallback& callback);

}  // namespace athanor::documents

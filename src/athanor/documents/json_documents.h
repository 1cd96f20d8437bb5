// Reads the documents of a JSON file: the text of each object.
//
//   const JsonLayout layout = recognize_json(source.head(kFormatProbeBytes));
//   for_each_json_document(source, "a.json", {.text_key = "text"}, layout,
//                          [](std::string_view text, const RecordPlace& place) { ... });
//
//   lines    an object per line; blank lines are skipped
//   array    one array of objects
//   values   objects one after the other, each over any number of lines; a file of one object is the same
//
// One object is held in memory at a time, not the file. All valid JSON is taken: numbers of any size (none is
// converted), kMaxJsonDepth levels of nesting, any escape. In the text itself lone surrogates, which stand for no
// character, are refused; in the metadata they become \ufffd. A key other than that of the text may occur twice in an
// object. A byte-order mark at the start is dropped. The id is a string or an integer. The metadata keep the bytes of
// all values; the text and the id are left out of them.
//
// Behind a broken line reading goes on with the next line; behind a fault between the objects of another layout, with
// the next '{'.
//
// Thread rule: the callback runs in the calling thread. Errors: RecordError naming the file and the line for invalid
// JSON, a value that is not an object, an object without the text key (the message lists its keys) or with a value under
// it that is not a string, or an object above max_bytes (record.h). Where refused records are told, a zero byte in the
// text (\u0000) is one, too.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "athanor/documents/byte_source.h"
#include "athanor/documents/record.h"

namespace athanor::documents {

constexpr size_t kMaxJsonDepth = 65536;

enum class JsonLayout { none, lines, array, values };

// The layout of a text, by its first kFormatProbeBytes (or all of a shorter text). A text counts as JSON if these bytes
// are valid JSON so far. It also counts as JSON if it begins with {" or [{", as only JSON does; then its faults are
// errors.
JsonLayout recognize_json(std::string_view head);

void for_each_json_document(ByteSource& source, const std::string& name, const RecordOptions& options,
                            JsonLayout layout, const RecordCallback& callback);

}  // namespace athanor::documents

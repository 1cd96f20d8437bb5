// Reads the documents of a JSON file: the string under one key of each object.
//
//   const JsonLayout layout = recognize_json(source.head(kFormatProbeBytes));
//   for_each_json_document(source, "a.json", "text", layout,
//                          [](std::string_view text, const JsonPlace& place) { ... });
//
//   lines    an object per line; blank lines are skipped
//   array    one array of objects
//   values   objects one after the other, each over any number of lines; a file of one object is the same
//
// One object is held in memory at a time, not the file. All valid JSON is taken: numbers of any size (none is
// converted), kMaxJsonDepth levels of nesting, any escape. In the text itself lone surrogates, which stand for no
// character, are refused. A key other than text_key may occur twice in an object. A byte-order mark at the start is
// dropped.
//
// Thread rule: the callback runs in the calling thread. Errors: JsonError naming the file and the line for invalid
// JSON, a value that is not an object, an object without text_key (the message lists its keys), a text_key that is not
// a string, or an object above kMaxDocumentBytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "athanor/base/error.h"
#include "athanor/documents/byte_source.h"

namespace athanor::documents {

constexpr size_t kMaxJsonDepth = 65536;

enum class JsonLayout { none, lines, array, values };

// "'a.json' line 3: REASON"
class JsonError : public Error {
 public:
  JsonError(const std::string& name, int64_t line, const std::string& reason);
  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

struct JsonPlace {
  int64_t line = 0;     // where the object begins
  std::string id = "";  // the string or integer under "id", if there is one
};
using JsonCallback = std::function<void(std::string_view text, const JsonPlace& place)>;

// The layout of a text, by its first kFormatProbeBytes (or all of a shorter text). A text counts as JSON if these bytes
// are valid JSON so far. It also counts as JSON if it begins with {" or [{", as only JSON does; then its faults are
// errors.
JsonLayout recognize_json(std::string_view head);

void for_each_json_document(ByteSource& source, const std::string& name, const std::string& text_key,
                            JsonLayout layout, const JsonCallback& callback);

}  // namespace athanor::documents

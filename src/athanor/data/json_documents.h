// The documents of a file of JSON: the string under one key of each of its objects.
//
//   const JsonLayout layout = recognize_json(source.head(kFormatProbeBytes));
//   for_each_json_document(source, "a.json", "text", layout, [](std::string_view text, const JsonPlace& place) { ... });
//
//   lines    an object per line; blank lines are skipped
//   array    one array of objects
//   values   objects one after the other, over as many lines as they like; one object is such a file too
//
// An object is held in memory as a whole, the file is not. All valid JSON is taken: numbers of any size (they are not
// ours, so none is converted), kMaxJsonDepth levels of nesting, any escape; lone surrogates, which stand for no character,
// are refused in the text itself. A key may stand twice in an object, the text's own may not. A byte-order mark at the
// start is dropped.
//
// Thread rule: the callback runs in the calling thread. Errors: JsonError naming the file and the line for what is not
// JSON, not an object, has no text_key (lists the keys there are), a value there that is no string, or an object above
// kMaxDocumentBytes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "athanor/base/error.h"
#include "athanor/data/byte_source.h"

namespace athanor {

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

// What the first kFormatProbeBytes of a text, or all of a shorter one, are. A text is JSON where it reads as JSON so
// far, and where it begins as nothing but JSON does ({" or [{"): then its faults are errors.
JsonLayout recognize_json(std::string_view head);

void for_each_json_document(ByteSource& source, const std::string& name, const std::string& text_key,
                            JsonLayout layout, const JsonCallback& callback);

}  // namespace athanor

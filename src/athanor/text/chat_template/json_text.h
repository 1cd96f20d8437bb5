// Values as JSON, as Python's json.dumps writes them: what the filter tojson gives.
//
//   MarkedText text = json_text(evaluator, value, {});   // {"a": [1, "b"]}
//
// Errors: those of the evaluator, for undefined values and functions. Thread rule: as the evaluator.
#pragma once

#include <optional>
#include <string>

#include "athanor/text/chat_template/evaluator.h"

namespace athanor::text::chat_template {

struct JsonStyle {
  bool ascii = false;  // \uXXXX for other characters
  bool sort_keys = false;
  std::optional<std::string> margin;  // one item a line, each level moved by this
  std::string item_separator = ", ", key_separator = ": ";
};

MarkedText json_text(Evaluator& self, const Value& value, const JsonStyle& style);

}  // namespace athanor::text::chat_template

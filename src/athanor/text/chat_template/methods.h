// The methods of texts and maps: {{ value.name(arguments) }}, with Python's names and results.
//
//   const Method strip = find_method(make_text(" a "), "strip");
//   Value stripped = strip(evaluator, make_text(" a "), "strip", {});   // "a"
//
// Texts: capitalize, count, endswith, find, isalpha, isdigit, isspace, join, lower, lstrip, partition, removeprefix,
// removesuffix, replace, rfind, rpartition, rsplit, rstrip, split, splitlines, startswith, strip, title, upper.
// Maps: get, items, keys, values, copy. White space is Python's. Errors: those of the evaluator. Thread rule: as it.
#pragma once

#include <string>
#include <string_view>

#include "athanor/text/chat_template/evaluator.h"

namespace athanor::text::chat_template {

using Method = Value (*)(Evaluator& self, const Value& object, const std::string& name,
                         const Arguments& arguments);

// Null if the value has no such method.
Method find_method(const Value& object, std::string_view name);

// Helpers that filters share.
MarkedText stripped(const MarkedText& text, const std::optional<std::string>& characters, bool left,
                    bool right);
MarkedText capitalized(const MarkedText& text);
MarkedText replaced(Evaluator& self, const MarkedText& text, const MarkedText& old_part,
                    const MarkedText& new_part, int64_t count);

}  // namespace athanor::text::chat_template

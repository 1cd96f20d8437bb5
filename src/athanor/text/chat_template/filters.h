// The filters of templates: {{ value | name(arguments) }}.
//
//   Value upper = apply_filter(evaluator, "upper", make_text("a"), {});
//
// abs, capitalize, count, d, default, dictsort, first, float, indent, int, items, join, last, length, list, lower, map,
// max, min, reject, rejectattr, replace, reverse, round, safe, select, selectattr, sort, string, sum, title, tojson,
// trim, unique, upper: with the arguments and results that Jinja and transformers (tojson) give them, but for lazy
// sequences, which are lists. Errors: those of the evaluator. Thread rule: as the evaluator.
#pragma once

#include <string>
#include <string_view>

#include "athanor/text/chat_template/evaluator.h"

namespace athanor::text::chat_template {

using Filter = Value (*)(Evaluator& self, const Value& input, const Arguments& arguments);

bool is_filter(std::string_view name);
Value apply_filter(Evaluator& self, const std::string& name, const Value& input, const Arguments& arguments);

// filters_of_text.cpp, filters_of_lists.cpp: null if the name is not one of theirs.
Filter find_text_filter(std::string_view name);
Filter find_list_filter(std::string_view name);

// The value under "a.b.0" in maps and lists; undefined if there is none.
Value value_at_path(const Value& value, std::string_view path);

}  // namespace athanor::text::chat_template

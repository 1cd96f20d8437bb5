// The tests of templates: {% if value is name(arguments) %}.
//
//   const bool holds = apply_test(evaluator, "string", make_text("a"), {});   // true
//
// Those of Jinja, but for escaped, filter and test. Errors: those of the evaluator. Thread rule: as the evaluator.
#pragma once

#include <string>
#include <string_view>

#include "athanor/text/chat_template/evaluator.h"

namespace athanor::text::chat_template {

bool is_test(std::string_view name);
bool apply_test(Evaluator& self, const std::string& name, const Value& value, const Arguments& arguments);

}  // namespace athanor::text::chat_template

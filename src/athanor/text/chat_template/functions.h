// The functions of templates: namespace(), range(), dict(), raise_exception(), and strftime_now() where a time is given.
//
//   define_functions(evaluator, TemplateTime{.year = 2024, .month = 7, .day = 26});
//
// strftime_now() never asks a clock. Without a time it is undefined, which most templates ask for.
// Thread rule: as the evaluator.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "athanor/text/chat_template/evaluator.h"

namespace athanor::text::chat_template {

struct TemplateTime {
  int year = 2024, month = 1, day = 1;  // month and day from 1
  int hour = 0, minute = 0, second = 0;
};

void define_functions(Evaluator& evaluator, const std::optional<TemplateTime>& now);

// strftime's %Y %y %m %d %e %b %B %a %A %H %I %M %S %p %j %%, in English; Error for others.
std::string format_time(const TemplateTime& time, std::string_view format);

}  // namespace athanor::text::chat_template

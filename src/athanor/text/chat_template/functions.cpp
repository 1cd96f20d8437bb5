#include "athanor/text/chat_template/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "athanor/base/check.h"

namespace athanor::text::chat_template {
namespace {

constexpr int64_t kMaxRange = 100'000;  // as Jinja's sandbox

void define(Evaluator& evaluator, const char* name,
            std::function<Value(Evaluator&, const Arguments&)> function) {
  evaluator.define(name,
                   Value(std::make_shared<const CallableBody>(CallableBody{name, std::move(function)})));
}

Value make_namespace(Evaluator& self, const Arguments& arguments) {
  NamespaceBody body;
  const auto put = [&](const std::string& key, const Value& value) {
    if (value.holds_namespace()) self.fail("a namespace cannot be stored in a namespace");
    const auto known = std::ranges::find(body.attributes, key, [](const auto& entry) { return entry.first; });
    if (known != body.attributes.end())
      known->second = value;
    else
      body.attributes.emplace_back(key, value);
    self.spend(body.attributes.size() / 16 + 1);
  };
  if (arguments.positional.size() > 1)
    self.fail(fmt::format("namespace: got {} arguments, expected at most 1", arguments.positional.size()));
  for (const Value& source : arguments.positional) {
    if (!source.map()) self.fail(fmt::format("namespace: got {}, expected a map", source.type_name()));
    for (const auto& [key, value] : source.map()->entries) put(key.bytes(), value);
  }
  for (const auto& [key, value] : arguments.named) put(key, value);
  return Value(std::make_shared<NamespaceBody>(std::move(body)));
}

Value make_range(Evaluator& self, const Arguments& arguments) {
  const auto bound = self.bind("range", arguments, {"start", "stop", "step"});
  if (!bound[0]) self.fail("range: got no arguments");
  const int64_t begin = bound[1] ? self.need_integer(*bound[0], "range") : 0;
  const int64_t end = self.need_integer(bound[1] ? *bound[1] : *bound[0], "range");
  const int64_t step = bound[2] ? self.need_integer(*bound[2], "range") : 1;
  if (step == 0) self.fail("range: the step is 0");
  List numbers;
  for (int64_t at = begin; step > 0 ? at < end : at > end;) {
    if (static_cast<int64_t>(numbers.size()) == kMaxRange)
      self.fail(fmt::format("range: more than {} numbers", kMaxRange));
    numbers.push_back(Value(at));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return self.list(std::move(numbers));
}

Value make_dict(Evaluator& self, const Arguments& arguments) {
  Map map;
  if (arguments.positional.size() > 1)
    self.fail(fmt::format("dict: got {} arguments, expected at most 1", arguments.positional.size()));
  for (const Value& source : arguments.positional) {
    if (source.map()) {
      for (const auto& [key, value] : source.map()->entries) map.put(key, value);
      continue;
    }
    for (const Value& pair : self.items_of(source, "dict")) {
      const List entry = self.items_of(pair, "dict");
      if (entry.size() != 2)
        self.fail(fmt::format("dict: got {} values, expected a key and a value", entry.size()));
      map.put(self.need_text(entry[0], "dict"), entry[1]);
    }
  }
  for (const auto& [key, value] : arguments.named) map.put(MarkedText(key), value);
  self.spend(map.entries.size());
  return make_map(std::move(map));
}

Value raise_exception(Evaluator& self, const Arguments& arguments) {
  const auto bound = self.bind("raise_exception", arguments, {"message"});
  self.fail("the template refuses the conversation: " +
            (bound[0] ? bound[0]->shown().bytes() : std::string()));
}

// Days since 1970-01-01 (a Thursday) of the proleptic Gregorian calendar.
int64_t day_number(int year, int month, int day) {
  static constexpr std::array<int, 12> kBefore = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  const int64_t years = year - 1;
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return years * 365 + years / 4 - years / 100 + years / 400 + kBefore[static_cast<size_t>(month - 1)] +
         (leap && month > 2 ? 1 : 0) + day - 1 - 719162;
}

}  // namespace

std::string format_time(const TemplateTime& time, std::string_view format) {
  static constexpr std::array<std::string_view, 12> kMonths = {
      "January", "February", "March",     "April",   "May",      "June",
      "July",    "August",   "September", "October", "November", "December"};
  static constexpr std::array<std::string_view, 7> kDays = {"Thursday", "Friday",  "Saturday", "Sunday",
                                                            "Monday",   "Tuesday", "Wednesday"};
  check(time.year >= 1970 && time.year <= 9999 && time.month >= 1 && time.month <= 12 && time.day >= 1 &&
            time.day <= 31,
        "the time of a template: got {}-{}-{}, expected a date from 1970 on", time.year, time.month,
        time.day);
  const std::string_view month = kMonths[static_cast<size_t>(time.month - 1)];
  const int64_t days = day_number(time.year, time.month, time.day);
  const std::string_view day = kDays[static_cast<size_t>(days % 7)];
  std::string out;
  for (size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '%' || at + 1 == format.size()) {
      out += format[at];
      continue;
    }
    switch (format[++at]) {
      case 'Y':
        out += fmt::format("{}", time.year);
        break;
      case 'y':
        out += fmt::format("{:02}", time.year % 100);
        break;
      case 'm':
        out += fmt::format("{:02}", time.month);
        break;
      case 'd':
        out += fmt::format("{:02}", time.day);
        break;
      case 'e':
        out += fmt::format("{:2}", time.day);
        break;
      case 'b':
        out += month.substr(0, 3);
        break;
      case 'B':
        out += month;
        break;
      case 'a':
        out += day.substr(0, 3);
        break;
      case 'A':
        out += day;
        break;
      case 'H':
        out += fmt::format("{:02}", time.hour);
        break;
      case 'I':
        out += fmt::format("{:02}", (time.hour + 11) % 12 + 1);
        break;
      case 'M':
        out += fmt::format("{:02}", time.minute);
        break;
      case 'S':
        out += fmt::format("{:02}", time.second);
        break;
      case 'p':
        out += time.hour < 12 ? "AM" : "PM";
        break;
      case 'j':
        out += fmt::format("{:03}", days - day_number(time.year, 1, 1) + 1);
        break;
      case '%':
        out += '%';
        break;
      default:
        fail("strftime_now: got '%{}', expected one of Y y m d e b B a A H I M S p j %", format[at]);
    }
  }
  return out;
}

void define_functions(Evaluator& evaluator, const std::optional<TemplateTime>& now) {
  define(evaluator, "namespace", make_namespace);
  define(evaluator, "range", make_range);
  define(evaluator, "dict", make_dict);
  define(evaluator, "raise_exception", raise_exception);
  if (!now) return;
  define(evaluator, "strftime_now", [time = *now](Evaluator& self, const Arguments& arguments) {
    const auto bound = self.bind("strftime_now", arguments, {"format"});
    if (!bound[0]) self.fail("strftime_now: got no format");
    const MarkedText& format = self.need_text(*bound[0], "strftime_now");
    self.spend_bytes(format.size() * 8);
    return self.text(MarkedText(format_time(time, format.bytes())));
  });
}

}  // namespace athanor::text::chat_template

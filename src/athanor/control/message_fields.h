// How messages are written as JSON, and read from it by fields that are checked as they are read. For control/ itself.
//
//   const Fields fields(text);
//   if (fields.name() == "ready") return Ready{.generation = fields.number("generation", -1, kMost), .why = fields.text("why")};
//   fields.refuse("message", "which no worker sends");
//
// Errors: Error naming message and field. Thread rule: pure.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "athanor/base/check.h"
#include "athanor/control/messages.h"

namespace athanor::control {

using Json = nlohmann::json;

constexpr int kRanksLimit = 1 << 20;
constexpr int kMostInt = std::numeric_limits<int>::max();
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// Not inside a character of UTF-8.
inline std::string cut(const std::string& text) {
  if (text.size() <= kTextBytes) return text;
  size_t end = kTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

inline std::string print(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

class Fields {
 public:
  explicit Fields(std::string_view text) {
    json_ = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
    check(json_.is_object(), "control message: got {} bytes that are no JSON object", text.size());
    name_ = this->text("message");
  }
  const std::string& name() const { return name_; }

  [[noreturn]] void refuse(const char* key, const std::string& why) const {
    fail("control message {}: {}: {}", name_.empty() ? "" : "'" + name_.substr(0, 40) + "'", key, why);
  }
  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) refuse(key, "is missing");
    return *found;
  }
  bool has(const char* key) const { return json_.contains(key); }
  bool flag(const char* key) const {
    const Json& value = at(key);
    if (!value.is_boolean()) refuse(key, fmt::format("got {}, expected true or false", value.type_name()));
    return value.get<bool>();
  }
  int64_t number(const char* key, int64_t least, int64_t most) const {
    return number(key, at(key), least, most);
  }
  int64_t number(const char* key, const Json& value, int64_t least, int64_t most) const {
    if (!value.is_number_integer())
      refuse(key, fmt::format("got {}, expected an integer", value.type_name()));
    const bool too_large = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(kMost);
    if (too_large || value.get<int64_t>() < least || value.get<int64_t>() > most)
      refuse(key, fmt::format("got {}, expected {} to {}", value.dump(), least, most));
    return value.get<int64_t>();
  }
  // Of -1 (nothing to say) upwards.
  double real(const char* key) const {
    const Json& value = at(key);
    if (!value.is_number()) refuse(key, fmt::format("got {}, expected a number", value.type_name()));
    const double got = value.get<double>();
    if (!(got >= -1.0)) refuse(key, fmt::format("got {}, expected -1 or more", got));
    return got;
  }
  std::string text(const char* key, size_t most = kTextBytes) const {
    const Json& value = at(key);
    if (!value.is_string()) refuse(key, fmt::format("got {}, expected a text", value.type_name()));
    std::string got = value.get<std::string>();
    if (got.size() > most) refuse(key, fmt::format("got {} bytes, expected at most {}", got.size(), most));
    return got;
  }
  template <typename Enum, size_t kCount>
  Enum one_of(const char* key, const std::array<std::string_view, kCount>& names) const {
    const std::string got = text(key);
    const auto found = std::find(names.begin(), names.end(), got);
    if (found == names.end()) refuse(key, fmt::format("got '{}', which is not known", got.substr(0, 40)));
    return static_cast<Enum>(found - names.begin());
  }

 private:
  Json json_;
  std::string name_;
};

}  // namespace athanor::control

#include "athanor/store/json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "athanor/base/check.h"

namespace athanor::store {

nlohmann::json parse_json(std::string_view text, const std::string& file) {
  using Json = nlohmann::json;
  constexpr int kMaxDepth = 16;
  std::vector<std::set<std::string>> keys;  // of the objects that are still open
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    check(depth <= kMaxDepth, "'{}': JSON nests deeper than {}", file, kMaxDepth);
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto key = value.get<std::string>();
      check(keys.back().insert(key).second, "'{}': the key '{}' is given twice", file, key.substr(0, 100));
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const nlohmann::json::exception& error) {
    fail("'{}': got {}, expected JSON", file, json_reason(error));
  }
}

std::string_view json_reason(const std::exception& error) {
  const std::string_view what = error.what();
  const size_t end = what.starts_with('[') ? what.find("] ") : std::string_view::npos;
  return end == std::string_view::npos ? what : what.substr(end + 2);
}

}  // namespace athanor::store

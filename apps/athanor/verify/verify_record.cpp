#include "verify_record.h"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/base/error.h"
#include "athanor/layout/enumerate.h"
#include "athanor/store/json.h"

namespace athanor::apps {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;
constexpr size_t kMostErrorText = 1000;

Largest largest_of(const nlohmann::json& json) {
  const nlohmann::json& value = json.at("difference");  // infinity is written as null
  return {.value = value.is_null() ? std::numeric_limits<double>::infinity() : value.get<double>(),
          .where = json.at("where").get<std::string>()};
}

}  // namespace

std::string line_of(const TriedLayout& tried) {
  TriedLayout shortened = tried;
  if (shortened.error.size() > kMostErrorText) shortened.error.resize(kMostErrorText);
  return shortened.report().to_json_line();
}

TriedLayout tried_of(const std::string& line, const std::string& file) {
  const nlohmann::json json = parse_json(line, file);
  TriedLayout tried;
  try {
    tried.ranks = json.at("ranks").get<int>();
    tried.difference.loss = largest_of(json.at("loss"));
    tried.difference.grad_norm = largest_of(json.at("grad_norm"));
    tried.difference.gradient = largest_of(json.at("gradient"));
    tried.difference.weight = largest_of(json.at("weight"));
    tried.difference.routing_flips = json.at("routing_flips").get<int64_t>();
    tried.difference.bitwise = json.at("bitwise").get<bool>();
    tried.must_be_bitwise = json.at("must_be_bitwise").get<bool>();
    tried.holds = json.at("holds").get<bool>();
    tried.error = json.value("error", "");
  } catch (const nlohmann::json::exception& error) {
    throw Error(fmt::format("{}: a line is no layout: {}", file, json_reason(error)));
  }
  return tried;
}

LayoutRecord::LayoutRecord(const std::string& path, const std::string& settings) : path_(path) {
  Env& env = system_env();
  const std::string first =
      fmt::format("{{\"record\": \"athanor verify --all-layouts\", \"settings\": \"{}\"}}", settings);
  std::string text = env.exists(path) ? env.read_text(path, kMostBytes) : "";
  const size_t whole = text.rfind('\n') + 1;  // npos + 1 is 0
  const bool begun = whole > 0;
  if (begun) {
    check(text.starts_with("{\"record\": \"athanor verify --all-layouts\""),
          "{}: got a file that is no record of `athanor verify --all-layouts`", path);
    check(text.starts_with(first + "\n"),
          "{}: got the record of a walk with other settings, other samples or another program; give "
          "--record a new file",
          path);
  } else {
    check(text.empty() || first.starts_with(text), "{}: got a file that is no record", path);
  }
  if (whole < text.size()) env.truncate(path, whole);
  text.resize(whole);
  for (size_t at = text.find('\n') + 1; begun && at < text.size();) {
    const size_t end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    TriedLayout tried = tried_of(line, path);
    known_[parse_json(line, path).at("layout").get<std::string>()] = std::move(tried);
    at = end + 1;
  }
  file_ = env.append_to(path);
  if (begun) return;
  file_->append(first + "\n");
  file_->flush();
}

const TriedLayout* LayoutRecord::find(const Layout& layout) const {
  const auto found = known_.find(layout.text());
  return found == known_.end() ? nullptr : &found->second;
}

void LayoutRecord::add(const TriedLayout& tried) {
  if (file_ == nullptr) return;
  file_->append(line_of(tried) + "\n");
  file_->flush();
}

}  // namespace athanor::apps

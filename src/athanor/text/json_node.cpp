#include "athanor/text/json_node.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/unicode.h"

namespace athanor::text {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 64;

std::string shown(const std::string& key) {
  return key.size() <= 60 ? key : key.substr(0, 57) + "...";
}

}  // namespace

JsonNode JsonNode::at(const std::string& key) const {
  if (!value_->is_object()) fail_type("object");
  const auto found = value_->find(key);
  if (found == value_->end()) fail(fmt::format("key '{}' is missing", key));
  return {*found, file_, path_.empty() ? key : path_ + "." + key};
}

std::optional<JsonNode> JsonNode::find(const std::string& key) const {
  if (!value_->is_object()) fail_type("object");
  const auto found = value_->find(key);
  if (found == value_->end() || found->is_null()) return std::nullopt;
  return at(key);
}

std::vector<JsonNode> JsonNode::items() const {
  if (!value_->is_array()) fail_type("array");
  std::vector<JsonNode> nodes;
  nodes.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i)
    nodes.emplace_back((*value_)[i], file_, fmt::format("{}[{}]", path_, i));
  return nodes;
}

std::string JsonNode::text() const {
  if (!value_->is_string()) fail_type("string");
  return value_->get<std::string>();
}

int64_t JsonNode::integer() const {
  if (!value_->is_number_integer() || (value_->is_number_unsigned() && value_->get<uint64_t>() > INT64_MAX))
    fail_type("integer");
  return value_->get<int64_t>();
}

double JsonNode::number() const {
  if (!value_->is_number()) fail_type("number");
  return value_->get<double>();
}

bool JsonNode::boolean() const {
  if (!value_->is_boolean()) fail_type("true or false");
  return value_->get<bool>();
}

uint32_t JsonNode::character() const {
  const std::string bytes = text();
  if (bytes.empty() || decode_utf8(bytes, 0).size != bytes.size())
    fail(fmt::format("got '{}', expected one character", shown(bytes)));
  return decode_utf8(bytes, 0).value;
}

std::string JsonNode::text(const std::string& key, const std::string& otherwise) const {
  const auto node = find(key);
  return node ? node->text() : otherwise;
}

int64_t JsonNode::integer(const std::string& key, int64_t otherwise) const {
  const auto node = find(key);
  return node ? node->integer() : otherwise;
}

bool JsonNode::boolean(const std::string& key, bool otherwise) const {
  const auto node = find(key);
  return node ? node->boolean() : otherwise;
}

std::string JsonNode::name() const {
  return path_.empty() ? file_ : file_ + ": " + path_;
}

void JsonNode::fail(const std::string& message) const {
  throw Error(name() + ": " + message);
}

void JsonNode::fail_type(const std::string& expected) const {
  fail(fmt::format("got {}, expected {}", value_->type_name(), expected));
}

JsonFile::JsonFile(const std::string& name, std::string_view text, std::span<const ByteSpan> left_out)
    : name_(name) {
  if (!left_out.empty()) {
    std::string rest;
    size_t done = 0;
    for (const auto& [begin, end] : left_out) {
      rest.append(text.substr(done, begin + 1 - done)).push_back(text[end - 1]);
      done = end;
    }
    rest.append(text.substr(done));
    try {
      value_ = std::move(JsonFile(name, rest).value_);
      return;
    } catch (const Error&) {
      value_ = nullptr;  // the whole text says in which line and column that is
    }
  }
  // A DOM keeps the last of two equal keys without a word, so the keys are counted while it is built.
  std::vector<size_t> num_keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > kMaxDepth) throw Error(fmt::format("{}: nested deeper than {}", name, kMaxDepth));
    if (event == Json::parse_event_t::object_start) num_keys.push_back(0);
    if (event == Json::parse_event_t::key) ++num_keys.back();
    if (event == Json::parse_event_t::object_end) {
      if (parsed.size() != num_keys.back())
        throw Error(fmt::format("{}: an object with keys such as '{}' has {} keys of which {} differ", name,
                                shown(parsed.begin().key()), num_keys.back(), parsed.size()));
      num_keys.pop_back();
    }
    return true;
  };
  try {
    value_ = std::make_unique<Json>(Json::parse(text.begin(), text.end(), watch));
  } catch (const Json::exception& error) {
    const std::string_view what = error.what();  // begins with the library's own name for it in brackets
    throw Error(fmt::format("{}: not valid JSON: {}", name, what.substr(what.find("] ") + 2)));
  }
}

JsonFile::~JsonFile() = default;
JsonFile::JsonFile(JsonFile&&) noexcept = default;

JsonNode JsonFile::root() const {
  return {*value_, name_, ""};
}

}  // namespace athanor::text

#include "athanor/text/json_node.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "athanor/base/error.h"
#include "athanor/text/unicode.h"

namespace athanor::text {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDepth = 64;

std::string shown(const std::string& key) {
  return key.size() <= 60 ? key : key.substr(0, 57) + "...";
}

// Builds the tree of a file in time linear in its size, and counts the keys of its objects: nlohmann's own tree keeps the
// last of two equal keys without a word, and its parser with a callback looks at all that an object holds so far
// whenever an object in it ends.
class TreeReader : public nlohmann::json_sax<Json> {
 public:
  explicit TreeReader(const std::string& name) : name_(name) {}
  Json take() { return std::move(root_); }

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t& value) override { return put(std::move(value)); }
  bool start_object(size_t) override { return open(Json::object()); }
  bool start_array(size_t) override { return open(Json::array()); }
  bool end_array() override { return close(); }
  bool key(string_t& key) override {
    ++open_.back().num_keys;
    key_ = std::move(key);
    return true;
  }
  bool end_object() override {
    const auto& [object, num_keys] = open_.back();
    if (object->size() != num_keys)
      throw Error(fmt::format("{}: an object with keys such as '{}' has {} keys of which {} differ", name_,
                              shown(object->begin().key()), num_keys, object->size()));
    return close();
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& error) override {
    const std::string_view what = error.what();  // begins with the library's own name for it in brackets
    throw Error(fmt::format("{}: not valid JSON: {}", name_, what.substr(what.find("] ") + 2)));
  }

 private:
  struct Open {
    Json* value;  // stays where it is as long as it is open
    size_t num_keys;
  };

  template <typename Value>
  Json* add(Value&& value) {
    if (open_.size() > kMaxDepth) throw Error(fmt::format("{}: nested deeper than {}", name_, kMaxDepth));
    if (open_.empty()) return &(root_ = std::forward<Value>(value));
    Json& parent = *open_.back().value;
    if (parent.is_array()) return &parent.emplace_back(std::forward<Value>(value));
    return &(parent.get_ref<Json::object_t&>()[std::move(key_)] = std::forward<Value>(value));
  }
  template <typename Value>
  bool put(Value&& value) {
    add(std::forward<Value>(value));
    return true;
  }
  bool open(Json value) {
    open_.push_back({add(std::move(value)), 0});
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  const std::string& name_;
  Json root_;
  std::vector<Open> open_;
  std::string key_;  // of the value that comes next
};

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
  TreeReader reader(name);
  Json::sax_parse(text.begin(), text.end(), &reader);
  value_ = std::make_unique<Json>(reader.take());
}

JsonFile::~JsonFile() = default;
JsonFile::JsonFile(JsonFile&&) noexcept = default;

JsonNode JsonFile::root() const {
  return {*value_, name_, ""};
}

}  // namespace athanor::text

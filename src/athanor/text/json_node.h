// A value of a JSON file that knows its file and path, so that every error message names them.
//
//   const JsonFile file("tokenizer.json", text);
//   const int64_t id = file.root().at("added_tokens").items()[0].at("id").integer();
//   // Error: "tokenizer.json: added_tokens[0].id: got string, expected integer"
//
// A node refers to its file and must not outlive it. A key given twice in one object is an Error.
// Thread rule: const.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"
#include "athanor/text/byte_span.h"

namespace athanor::text {

class JsonNode {
 public:
  JsonNode(const nlohmann::json& value, std::string file, std::string path)
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  JsonNode at(const std::string& key) const;                   // a missing key is an Error
  std::optional<JsonNode> find(const std::string& key) const;  // none if missing or null
  std::vector<JsonNode> items() const;                         // of an array

  std::string text() const;
  int64_t integer() const;
  double number() const;
  bool boolean() const;
  uint32_t character() const;  // a string of one code point

  std::string text(const std::string& key, const std::string& otherwise) const;
  int64_t integer(const std::string& key, int64_t otherwise) const;
  bool boolean(const std::string& key, bool otherwise) const;

  const nlohmann::json& value() const { return *value_; }
  std::string name() const;  // "file: path"
  [[noreturn]] void fail(const std::string& message) const;
  [[noreturn]] void fail_type(const std::string& expected) const;

 private:
  const nlohmann::json* value_;
  std::string file_, path_;
};

class JsonFile {
 public:
  // `left_out` are the places of values, objects or arrays in order, that are read as empty ones.
  JsonFile(const std::string& name, std::string_view text, std::span<const ByteSpan> left_out = {});
  ~JsonFile();
  JsonFile(JsonFile&&) noexcept;
  JsonNode root() const;

 private:
  std::string name_;
  std::unique_ptr<nlohmann::json> value_;
};

}  // namespace athanor::text

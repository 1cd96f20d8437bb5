#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/models/bert/hf.h"
#include "athanor/models/gpt2/hf.h"
#include "athanor/models/hf_windows.h"
#include "athanor/models/llama/hf.h"
#include "athanor/models/moe/hf.h"
#include "athanor/store/json.h"

namespace athanor::models {
namespace {

std::array<const HfFamily*, 6> families() {
  return {&bert::bert_hf(), &gpt2_hf(), &llama_hf(), &mistral_hf(), &mixtral_hf(), &bert::roberta_hf()};
}

}  // namespace

HfConfig::HfConfig(std::string_view text, std::string file)
    : json_(std::make_shared<const nlohmann::json>(parse_json(text, file))), file_(std::move(file)) {
  check(json_->is_object(), "'{}': got {}, expected an object", file_, json_->type_name());
}

const nlohmann::json* HfConfig::find(const std::string& key) const {
  asked_->insert(prefix_ + key);
  const auto found = json_->find(key);
  return found == json_->end() || found->is_null() ? nullptr : &*found;
}

bool HfConfig::has(const std::string& key) const {
  return find(key) != nullptr;
}

bool HfConfig::names(const std::string& key) const {
  return json_->contains(key);
}

bool HfConfig::is_object(const std::string& key) const {
  const auto found = json_->find(key);
  return found != json_->end() && found->is_object();
}

std::vector<std::string> HfConfig::texts(const std::string& key) const {
  const auto* value = find(key);
  if (value == nullptr) return {};
  const auto is_text = [](const nlohmann::json& item) { return item.is_string(); };
  if (!value->is_array() || !std::ranges::all_of(*value, is_text)) refuse(key, "expected a list of strings");
  return value->get<std::vector<std::string>>();
}

std::vector<std::string> HfConfig::keys() const {
  std::vector<std::string> keys;
  for (const auto& [key, value] : json_->items()) keys.push_back(key);
  return keys;
}

void HfConfig::refuse_the_rest(std::span<const std::string_view> without_effect) const {
  for (const auto& [key, value] : json_->items()) {
    const bool is_empty = (value.is_structured() && value.empty()) ||
                          (value.is_string() && value.get_ref<const std::string&>().empty());
    const bool says_nothing = value.is_null() || value == false || is_empty;
    if (says_nothing || asked_->contains(prefix_ + key) ||
        std::ranges::find(without_effect, key) != without_effect.end())
      continue;
    const std::string shown = value.dump();
    throw Error(fmt::format("'{}': {}{}: got {}, which is no setting of this model type that is known here",
                            file_, prefix_, key, shown.size() <= 60 ? shown : shown.substr(0, 57) + "..."),
                "it may change what the model computes; if it does not, take it out of the file");
  }
}

int64_t HfConfig::integer(const std::string& key) const {
  const auto* value = find(key);
  if (value == nullptr) refuse(key, "is missing");
  if (!value->is_number_unsigned() || value->get<uint64_t>() > INT64_MAX)
    refuse(key, fmt::format("got {}, expected an integer from zero up", value->dump()));
  return value->get<int64_t>();
}

int64_t HfConfig::integer(const std::string& key, int64_t otherwise) const {
  return has(key) ? integer(key) : otherwise;
}

double HfConfig::number(const std::string& key, double otherwise) const {
  const auto* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) refuse(key, fmt::format("got {}, expected a number", value->type_name()));
  return value->get<double>();
}

bool HfConfig::boolean(const std::string& key, bool otherwise) const {
  const auto* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse(key, fmt::format("got {}, expected true or false", value->type_name()));
  return value->get<bool>();
}

std::string HfConfig::text(const std::string& key, const std::string& otherwise) const {
  const auto* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) refuse(key, fmt::format("got {}, expected a string", value->type_name()));
  return value->get<std::string>();
}

HfConfig HfConfig::object(const std::string& key) const {
  const auto* value = find(key);
  if (value == nullptr || !value->is_object()) refuse(key, "expected an object");
  HfConfig inner = *this;
  inner.json_ = std::make_shared<const nlohmann::json>(*value);
  inner.prefix_ = prefix_ + key + ".";
  return inner;
}

void HfConfig::expect(const std::string& key, bool expected) const {
  if (boolean(key, expected) != expected)
    refuse(key, fmt::format("got {}, expected {}: this variant of the model is not supported", !expected,
                            expected));
}

void HfConfig::expect_absent(const std::string& key) const {
  if (has(key)) refuse(key, "is set, expected null: this variant of the model is not supported");
}

void HfConfig::refuse(const std::string& key, const std::string& message) const {
  fail("'{}': {}{}: {}", file_, prefix_, key, message);
}

const HfFamily& hf_family_of(const HfConfig& config) {
  const std::string type = config.text("model_type", "");
  for (const HfFamily* family : families())
    if (type == family->model_type) return *family;
  config.refuse("model_type", fmt::format("got '{}', expected bert, gpt2, llama, mistral, mixtral or roberta",
                                          type.substr(0, 100)));
}

const HfFamily& hf_family_of(const ModelConfig& model) {
  std::string type = model.has_experts() ? "mixtral" : model.model_type;  // which refuses what is none
  if (model.is_encoder()) return bert::is_roberta(model) ? bert::roberta_hf() : bert::bert_hf();
  if (const auto window = window_of(model)) {
    check(type != "gpt2", "model.attention_pattern: got a window of {}, expected 'causal': no GPT-2 has one",
          *window);
    if (type == "llama") type = "mistral";
  }
  for (const HfFamily* family : families())
    if (type == family->model_type) return *family;
  fail("model.model_type: got '{}', expected bert, gpt2, llama, mixtral or moe", model.model_type);
}

Shape shape_there(const HfTensor& tensor, const std::function<const Shape&(const std::string&)>& shape_of) {
  const Shape& first = shape_of(tensor.parts[0]);
  if (tensor.slice >= 0) return {first[1], first[2]};
  int64_t rows = 0;
  for (const std::string& part : tensor.parts) rows += shape_of(part)[0];
  if (first.dims() == 1) return {rows};
  return tensor.transposed ? Shape{first[1], rows} : Shape{rows, first[1]};
}

}  // namespace athanor::models

// What a model family declares about its Hugging Face form (models/hf.h): names of tensors, and how its part of
// config.json is read and written.
//
//   const HfFamily& family = hf_family_of(config);          // by model_type
//   ModelConfig model = family.read(config);
//
// Below, "a Hugging Face tensor" is one in the safetensors files, "a parameter" one of an Athanor model. Errors: Error
// naming file and key. Thread rule: plain data.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/config/config.h"
#include "athanor/tensor/shape.h"

namespace athanor::models {

// A parsed config.json. Errors name the file and the key. It records which keys were read, for refuse_the_rest().
class HfConfig {
 public:
  HfConfig(std::string_view text, std::string file);

  bool has(const std::string& key) const;    // present and not null
  bool names(const std::string& key) const;  // present, perhaps null; does not count as reading the key
  int64_t integer(const std::string& key) const;
  int64_t integer(const std::string& key, int64_t otherwise) const;
  double number(const std::string& key, double otherwise) const;
  bool boolean(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  HfConfig object(const std::string& key) const;
  // Refuse a key that changes the function of the model in a way that Athanor does not support.
  void expect(const std::string& key, bool expected) const;
  void expect_absent(const std::string& key) const;
  // Refuses every key that was not read and is not in `without_effect`, because an unknown key may change the function
  // of the model. Keys with value null, false or empty are allowed.
  void refuse_the_rest(std::span<const std::string_view> without_effect) const;
  bool is_object(const std::string& key) const;                  // as names()
  std::vector<std::string> texts(const std::string& key) const;  // a list; empty where the key is missing
  std::vector<std::string> keys() const;
  [[noreturn]] void refuse(const std::string& key, const std::string& message) const;

 private:
  const nlohmann::json* find(const std::string& key) const;
  std::shared_ptr<const nlohmann::json> json_;
  std::shared_ptr<std::set<std::string>> asked_ = std::make_shared<std::set<std::string>>();
  std::string file_, prefix_;
};

// A Hugging Face tensor: the concatenation of parameters (`parts`) along the outermost dimension, perhaps transposed;
// or slice `slice` of a single parameter that is a stack of such tensors.
struct HfTensor {
  std::string name;
  std::vector<std::string> parts;
  bool transposed = false;
  int64_t slice = -1;
};

// The shape of the Hugging Face tensor; shape_of(name) is the shape of a parameter.
Shape shape_there(const HfTensor& tensor, const std::function<const Shape&(const std::string&)>& shape_of);

struct HfFamily {
  const char* model_type;    // "llama", as ours
  const char* architecture;  // "LlamaForCausalLM"
  const char* prefix;        // of all tensor names except lm_head; missing in files of the bare model
  ModelConfig (*read)(const HfConfig& config);
  void (*write)(const ModelConfig& model, nlohmann::ordered_json& config);
  std::vector<HfTensor> (*tensors)(const ModelConfig& model);
  bool (*is_ignored)(std::string_view name, const ModelConfig& model);  // a tensor that was not trained
};

// Reads config.json by the family's rules; refuses keys that are not known (hf_keys.cpp).
ModelConfig read_hf_config(const HfFamily& family, const HfConfig& config);

const HfFamily& hf_family_of(const HfConfig& config);
const HfFamily& hf_family_of(const ModelConfig& model);

}  // namespace athanor::models

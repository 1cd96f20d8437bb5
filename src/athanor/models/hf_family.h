// What a family says about its form at Hugging Face (models/hf.h): names, and its part of config.json.
//
//   const HfFamily& family = hf_family_of(config);          // by model_type
//   ModelConfig model = family.read(config);
//
// Thread rule: plain data.
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

namespace athanor {

// A config.json whose every complaint names the file and the key.
class HfConfig {
 public:
  HfConfig(std::string_view text, std::string file);

  bool has(const std::string& key) const;    // there, and not null
  bool names(const std::string& key) const;  // there, perhaps null; does not count as asking for it
  int64_t integer(const std::string& key) const;
  int64_t integer(const std::string& key, int64_t otherwise) const;
  double number(const std::string& key, double otherwise) const;
  bool boolean(const std::string& key, bool otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  HfConfig object(const std::string& key) const;
  // Refuses what changes the function a model computes in a way that we do not have.
  void expect(const std::string& key, bool expected) const;
  void expect_absent(const std::string& key) const;
  // Refuses every key that nobody asked for and that is not among `without_effect`, unless its value is null, false or
  // empty: what we do not know may change the function.
  void refuse_the_rest(std::span<const std::string_view> without_effect) const;
  bool is_object(const std::string& key) const;                  // as names()
  std::vector<std::string> texts(const std::string& key) const;  // of a list; empty where there is none
  std::vector<std::string> keys() const;
  [[noreturn]] void refuse(const std::string& key, const std::string& message) const;

 private:
  const nlohmann::json* find(const std::string& key) const;
  std::shared_ptr<const nlohmann::json> json_;
  std::shared_ptr<std::set<std::string>> asked_ = std::make_shared<std::set<std::string>>();
  std::string file_, prefix_;
};

// A tensor there: our parameters one after the other in the outermost dimension, perhaps transposed; or slice number
// `slice` of one of ours, a stack of such tensors.
struct HfTensor {
  std::string name;
  std::vector<std::string> parts;
  bool transposed = false;
  int64_t slice = -1;
};

// The shape of the tensor there, where shape_of() says ours.
Shape shape_there(const HfTensor& tensor, const std::function<const Shape&(const std::string&)>& shape_of);

struct HfFamily {
  const char* model_type;    // "llama", as ours
  const char* architecture;  // "LlamaForCausalLM"
  const char* prefix;        // of all names but lm_head; a file of the bare model leaves it out
  ModelConfig (*read)(const HfConfig& config);
  void (*write)(const ModelConfig& model, nlohmann::ordered_json& config);
  std::vector<HfTensor> (*tensors)(const ModelConfig& model);
  bool (*is_ignored)(std::string_view name, const ModelConfig& model);  // holds nothing that was trained
};

// The family's reading of config.json; refuses by name what it does not know (hf_keys.cpp).
ModelConfig read_hf_config(const HfFamily& family, const HfConfig& config);

const HfFamily& hf_family_of(const HfConfig& config);
const HfFamily& hf_family_of(const ModelConfig& model);

}  // namespace athanor

// A model as a folder of safetensors files: model.safetensors alone, or shards under
// model.safetensors.index.json {"metadata": {"total_size": N}, "weight_map": {tensor: file}}.
//
//   const SafetensorsFolder folder(env, "gpt2");
//   folder.find("wte.weight");   // {file, tensor}, or none
//
// Errors: Error naming the file for an index that names a file or tensor that is not there, a file outside of
// the folder, or one tensor in two files. Thread rule: as SafetensorsFile.
#pragma once

#include "athanor/store/safetensors.h"

namespace athanor::store {

class SafetensorsFolder {
 public:
  SafetensorsFolder(Env& env, const std::string& path);

  struct Place {
    const SafetensorsFile* file;
    const StoredTensor* tensor;
  };
  const std::map<std::string, Place>& tensors() const { return tensors_; }
  std::optional<Place> find(const std::string& name) const;

 private:
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Place> tensors_;
};

// "model-00002-of-00003.safetensors"; the plain name where there is one shard. `index` counts from 0.
std::string safetensors_shard_name(size_t index, size_t count);

// The text of the index: which tensor is in which file.
std::string make_safetensors_index(const std::map<std::string, std::string>& file_of_tensor,
                                   uint64_t total_bytes);

}  // namespace athanor::store

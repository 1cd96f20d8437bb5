#include "athanor/store/safetensors_index.h"

#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/store/json.h"

namespace athanor::store {
namespace {

constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr uint64_t kMaxIndexBytes = uint64_t{64} << 20;

std::map<std::string, std::string> read_index(Env& env, const std::string& path) {
  const auto json = parse_json(env.read_text(path, kMaxIndexBytes), path);
  check(json.is_object() && json.contains("weight_map") && json["weight_map"].is_object(),
        "'{}': the object 'weight_map' is missing", path);
  std::map<std::string, std::string> files;
  for (const auto& [name, file] : json["weight_map"].items()) {
    check(file.is_string(), "'{}': weight_map '{}': got {}, expected the name of a file", path, name,
          file.type_name());
    const auto text = file.get<std::string>();
    check(!text.empty() && text[0] != '.' && text.find('/') == std::string::npos &&
              text.find('\0') == std::string::npos,
          "'{}': weight_map '{}': got '{}', expected a file of this folder", path, name, text);
    files.emplace(name, text);
  }
  return files;
}

}  // namespace

SafetensorsFolder::SafetensorsFolder(Env& env, const std::string& path) {
  const std::string single = join_path(path, safetensors_shard_name(0, 1));
  const std::string index_path = join_path(path, kIndexName);
  const auto add = [&](const std::string& file_path) {
    files_.push_back(std::make_unique<SafetensorsFile>(env, file_path));
    for (const StoredTensor& tensor : files_.back()->tensors())
      check(tensors_.emplace(tensor.name, Place{files_.back().get(), &tensor}).second,
            "'{}': tensor '{}' is in another file too", file_path, tensor.name);
  };
  if (env.exists(single)) {
    add(single);
    return;
  }
  check(env.exists(index_path), "'{}': got no weights, expected model.safetensors or {}", path, kIndexName);
  std::map<std::string, int> names;
  const auto index = read_index(env, index_path);
  for (const auto& [name, file] : index) ++names[file];
  for (const auto& [file, count] : names) {
    check(env.exists(join_path(path, file)), "'{}': names the file '{}', which is missing", index_path, file);
    add(join_path(path, file));
  }
  for (const auto& [name, file] : index) {
    const auto found = tensors_.find(name);
    check(found != tensors_.end() && found->second.file->path() == join_path(path, file),
          "'{}': the tensor '{}' is not in '{}'", index_path, name, file);
  }
}

std::optional<SafetensorsFolder::Place> SafetensorsFolder::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? std::nullopt : std::optional(found->second);
}

std::string safetensors_shard_name(size_t index, size_t count) {
  return count == 1 ? "model.safetensors"
                    : fmt::format("model-{:05d}-of-{:05d}.safetensors", index + 1, count);
}

std::string make_safetensors_index(const std::map<std::string, std::string>& file_of_tensor,
                                   uint64_t total_bytes) {
  nlohmann::ordered_json json;
  json["metadata"]["total_size"] = total_bytes;
  json["weight_map"] = file_of_tensor;
  return json.dump(2) + "\n";
}

}  // namespace athanor::store

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>

#include "athanor/base/check.h"
#include "athanor/base/human.h"
#include "athanor/config/fields.h"
#include "athanor/config/validate.h"
#include "athanor/models/hf.h"
#include "athanor/models/hf_family.h"
#include "athanor/models/model.h"

namespace athanor::models {
namespace {

constexpr uint64_t kMaxConfigBytes = uint64_t{4} << 20;

std::string compute_type(const HfConfig& config) {
  const std::string type = config.text("dtype", config.text("torch_dtype", "float32"));
  if (type == "bfloat16") return "bf16";
  if (type == "float16") return "f16";
  return "f32";
}

// config.json as a Config, checked like any other.
Config read_config(const HfConfig& hf, const std::string& file) {
  Config config;
  config.model = read_hf_config(hf_family_of(hf), hf);
  config.precision.compute = compute_type(hf);
  config.data.seq_len =
      std::min(config.data.seq_len, std::max<int64_t>(config.model.max_position_embeddings, 1));
  if (config.model.vocab_size == 0) hf.refuse("vocab_size", "is missing");
  for (const auto& field : shape_fields())
    config.origins[field.key()] = {Origin::Kind::model_config, printable(file)};
  validate_limits(config);
  validate(config);
  return config;
}

HfConfig open_config(Env& env, const std::string& path) {
  const std::string file = join_path(path, "config.json");
  check(env.is_folder(path), "'{}': got no folder, expected a Hugging Face folder", path);
  check(env.exists(file), "'{}': holds no config.json, expected a Hugging Face folder", path);
  check(!env.exists(join_path(path, "adapter_config.json")),
        "'{}': got adapter_config.json, expected whole weights: an adapter would change what the model "
        "computes",
        path);
  return {env.read_text(file, kMaxConfigBytes), file};
}

SafetensorsFolder open_folder(Env& env, const std::string& path) {
  if (env.exists(join_path(path, "pytorch_model.bin")) && !env.exists(join_path(path, "model.safetensors")) &&
      !env.exists(join_path(path, "model.safetensors.index.json")))
    fail("'{}': got pytorch_model.bin alone, expected model.safetensors", path);
  return {env, path};
}

}  // namespace

Config load_hf_config(Env& env, const std::string& path) {
  const std::string file = env.is_folder(path) ? join_path(path, "config.json") : path;
  return read_config({env.read_text(file, kMaxConfigBytes), file}, file);
}

HfWeights::HfWeights(Env& env, const std::string& path)
    : path_(path),
      config_(read_config(open_config(env, path), join_path(path, "config.json"))),
      folder_(open_folder(env, path)) {
  place_parts(hf_family_of(config_.model));
  check_tied_head();
}

void HfWeights::place_parts(const HfFamily& family) {
  check(static_cast<uint64_t>(config_.model.num_hidden_layers) <= folder_.tensors().size(),
        "'{}': got {} tensors for {} layers", path_, folder_.tensors().size(),
        config_.model.num_hidden_layers);
  std::map<std::string, Shape> shapes;
  const auto model = make_model(config_.model);
  for (const auto& param : model->params()) {
    shapes.emplace(param->name(), param->shape());
    names_.push_back(param->name());
  }
  const std::string_view prefix = family.prefix;
  const auto tensors = family.tensors(config_.model);
  const bool bare = !folder_.find(tensors[0].name);
  std::set<std::string> used;
  for (const HfTensor& tensor : tensors) {
    const bool has_prefix = std::string_view(tensor.name).substr(0, prefix.size()) == prefix;
    const std::string name = bare && has_prefix ? tensor.name.substr(prefix.size()) : tensor.name;
    const auto place = folder_.find(name);
    check(place.has_value(), "'{}': the tensor '{}' is missing", path_, tensor.name);
    const Shape expected =
        shape_there(tensor, [&](const std::string& part) -> const Shape& { return shapes.at(part); });
    check(place->tensor->shape == expected, "'{}': tensor '{}': got {}, expected {}", place->file->path(),
          name, place->tensor->shape, expected);
    used.insert(name);
    int64_t row = 0;
    for (const std::string& part : tensor.parts) {
      Part& ours = parts_[part];  // the slices of a stack come one after the other
      ours.shape = shapes.at(part);
      ours.places.push_back(*place);
      ours.first_row = row;
      ours.transposed = tensor.transposed;
      row += shapes.at(part)[0];
    }
  }
  for (const auto& [name, place] : folder_.tensors())
    check(used.contains(name) || family.is_ignored(name, config_.model),
          "'{}': got the tensor '{}', which a {} with this config.json has not", place.file->path(), name,
          family.model_type);
}

// Refuses a tied model whose files have a different head: programs disagree on whether to use it or the embedding.
void HfWeights::check_tied_head() const {
  if (!config_.model.tie_word_embeddings) return;
  std::string name;
  std::optional<SafetensorsFolder::Place> head;
  for (const char* each : {"lm_head.weight", "cls.predictions.decoder.weight", "lm_head.decoder.weight"})
    if (const auto found = folder_.find(each)) head = found, name = each;
  if (!head) return;
  const auto& embedding = parts_.at("embed.weight").places.front();
  const auto differs = [&] {
    if (head->tensor->shape != embedding.tensor->shape) return true;
    const int64_t rows = head->tensor->shape[0], columns = head->tensor->shape[1];
    const int64_t step = std::max<int64_t>(1, (int64_t{1} << 20) / std::max<int64_t>(columns, 1));
    std::vector<float> ours, theirs;
    for (int64_t row = 0; row < rows; row += step) {
      const int64_t count = std::min(step, rows - row) * columns;
      ours.resize(static_cast<size_t>(count));
      theirs.resize(static_cast<size_t>(count));
      embedding.file->read_f32(*embedding.tensor, row * columns, count, ours.data());
      head->file->read_f32(*head->tensor, row * columns, count, theirs.data());
      if (std::memcmp(ours.data(), theirs.data(), ours.size() * sizeof(float)) != 0) return true;
    }
    return false;
  };
  if (differs())
    throw Error(fmt::format("'{}': tensor '{}' differs from the embedding, but config.json says "
                            "tie_word_embeddings: got two heads, expected one",
                            head->file->path(), name),
                "set tie_word_embeddings to false, or take the tensor out");
}

void HfWeights::read(const std::string& name, float* values) const {
  const auto found = parts_.find(name);
  check(found != parts_.end(), "'{}': the model has no parameter '{}'", path_, name);
  const Part& part = found->second;
  if (part.shape.dims() == 3) {
    const int64_t count = part.shape[1] * part.shape[2];
    for (const auto& place : part.places) {
      place.file->read_f32(*place.tensor, 0, count, values);
      values += count;
    }
    return;
  }
  const SafetensorsFolder::Place& place = part.places.front();
  const int64_t rows = part.shape.dims() == 0 ? 1 : part.shape[0];
  const int64_t columns = part.shape.dims() == 2 ? part.shape[1] : 1;
  if (!part.transposed) {
    place.file->read_f32(*place.tensor, part.first_row * columns, rows * columns, values);
    return;
  }
  const int64_t stride = place.tensor->shape[1];
  std::vector<float> line(static_cast<size_t>(rows));  // the weights of one input for all outputs of the part
  for (int64_t column = 0; column < columns; ++column) {
    place.file->read_f32(*place.tensor, column * stride + part.first_row, rows, line.data());
    for (int64_t row = 0; row < rows; ++row) values[row * columns + column] = line[static_cast<size_t>(row)];
  }
}

}  // namespace athanor::models

// Files of linear models, little-endian: the head below, the weights that are not 0 by ascending index, and 32 digits of
// the checksum of all bytes before.
#include <bit>
#include <cmath>
#include <cstring>

#include "athanor/base/check.h"
#include "athanor/base/format_version.h"
#include "athanor/base/hash.h"
#include "athanor/corpus/classifier/linear_model.h"

namespace athanor::corpus::classifier {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr char kLinearMark[8] = {'A', 'T', 'H', 'N', 'L', 'I', 'N', 'R'};
constexpr uint32_t kLinearFormat = 1;
constexpr size_t kLinearChecksumBytes = 32;

struct LinearHead {
  char mark[8];
  uint32_t format;
  uint32_t bits;
  uint32_t words;
  uint32_t characters;
  uint64_t lowercase;
  double bias;
  double held_out_auc;
  uint64_t documents;
  uint64_t weights;
};
static_assert(sizeof(LinearHead) == 64);

struct LinearWeight {
  uint32_t index;
  float value;
};

}  // namespace

void LinearModel::write(base::Env& env, const std::string& path) const {
  std::vector<LinearWeight> weights;
  for (size_t i = 0; i < weights_.size(); ++i)
    if (weights_[i] != 0.0F) weights.push_back({static_cast<uint32_t>(i), weights_[i]});
  LinearHead head{{},
                  kLinearFormat,
                  static_cast<uint32_t>(features_.bits),
                  static_cast<uint32_t>(features_.words),
                  static_cast<uint32_t>(features_.characters),
                  features_.lowercase ? 1U : 0U,
                  bias_,
                  held_out_auc_,
                  static_cast<uint64_t>(documents_),
                  weights.size()};
  std::memcpy(head.mark, kLinearMark, sizeof head.mark);
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  bytes.append(reinterpret_cast<const char*>(weights.data()), weights.size() * sizeof(LinearWeight));
  base::Hash128 hash;
  hash.update(bytes);
  env.write_atomically(path, bytes + hash.hex());
}

LinearModel LinearModel::read(base::Env& env, const std::string& path) {
  return read(*env.open(path), path);
}

LinearModel LinearModel::read(const base::ReadableFile& file, const std::string& name) {
  const auto need = [&](bool holds, const char* what) {
    base::check(holds,
                "{}: got a damaged or foreign file ({}), expected a linear classifier of corpus builds", name,
                what);
  };
  const uint64_t size_bytes = file.size_bytes();
  LinearHead head{};
  need(size_bytes >= sizeof head + kLinearChecksumBytes, "it is too short");
  file.read(0, &head, sizeof head);
  need(std::memcmp(head.mark, kLinearMark, sizeof head.mark) == 0, "its beginning");
  base::check_format(name, head.format, kLinearFormat, "train the classifier again");
  const uint64_t weight_bytes = size_bytes - sizeof head - kLinearChecksumBytes;
  need(weight_bytes % sizeof(LinearWeight) == 0 && head.weights == weight_bytes / sizeof(LinearWeight),
       "its length");
  need(head.lowercase <= 1 && std::isfinite(head.bias) && head.documents < uint64_t{1} << 62, "its head");
  LinearModel model;
  model.features_ = {.bits = head.bits,
                     .words = head.words,
                     .characters = head.characters,
                     .lowercase = head.lowercase == 1};
  try {
    check_options(model.features_);
  } catch (const base::ConfigError&) {
    need(false, "its features");
  }
  need(head.weights <= uint64_t{1} << head.bits, "its length");

  std::vector<LinearWeight> weights(head.weights);
  file.read(sizeof head, weights.data(), weight_bytes);
  char checksum[kLinearChecksumBytes];
  file.read(sizeof head + weight_bytes, checksum, sizeof checksum);
  base::Hash128 hash;
  hash.update(&head, sizeof head);
  hash.update(weights.data(), weight_bytes);
  need(hash.hex() == std::string_view(checksum, sizeof checksum), "its checksum");
  model.bias_ = head.bias;
  model.held_out_auc_ = head.held_out_auc;
  model.documents_ = static_cast<int64_t>(head.documents);
  model.weights_.assign(size_t{1} << head.bits, 0.0F);
  uint64_t next = 0;
  for (const LinearWeight& weight : weights) {
    need(weight.index >= next && weight.index < model.weights_.size() && std::isfinite(weight.value),
         "a weight");
    model.weights_[weight.index] = weight.value;
    next = uint64_t{weight.index} + 1;
  }
  return model;
}

}  // namespace athanor::corpus::classifier

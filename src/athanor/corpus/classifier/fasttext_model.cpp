#include "athanor/corpus/classifier/fasttext_model.h"

#include <fasttext/fasttext.h>

#include <algorithm>
#include <cmath>
#include <istream>
#include <streambuf>

#include "athanor/base/check.h"
#include "athanor/base/file.h"
#include "athanor/corpus/classifier/fasttext_file.h"

namespace athanor::corpus::classifier {
namespace {

constexpr std::string_view kFastTextLabel = "__label__";

// libfasttext reads lines from streams; this one is over bytes that lie there already.
class LineBuffer : public std::streambuf {
 public:
  explicit LineBuffer(std::string& line) { setg(line.data(), line.data(), line.data() + line.size()); }
};

}  // namespace

struct FastTextModel::State {
  fasttext::FastText model;
};

FastTextModel::FastTextModel(const std::string& path) : state_(std::make_unique<State>()) {
  {
    const base::MappedFile file(path);
    check_fasttext_file({reinterpret_cast<const char*>(file.data()), static_cast<size_t>(file.size_bytes())},
                        path);
  }
  try {
    state_->model.loadModel(path);
  } catch (const std::invalid_argument& error) {
    base::fail("{}: {}", path, error.what());
  }
  const auto dictionary = state_->model.getDictionary();
  for (int32_t i = 0; i < dictionary->nlabels(); ++i) {
    std::string label = dictionary->getLabel(i);
    if (label.starts_with(kFastTextLabel)) label.erase(0, kFastTextLabel.size());
    labels_.push_back(std::move(label));
  }
}

FastTextModel::~FastTextModel() = default;
FastTextModel::FastTextModel(FastTextModel&&) noexcept = default;

bool FastTextModel::predict(std::string_view text, std::span<double> probabilities) const {
  base::check(probabilities.size() == labels_.size(),
              "probabilities: got {} places, expected {}, one for each label", probabilities.size(),
              labels_.size());
  std::fill(probabilities.begin(), probabilities.end(), 0.0);
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line.push_back('\n');
  LineBuffer buffer(line);
  std::istream stream(&buffer);
  std::vector<int32_t> words, labels;
  state_->model.getDictionary()->getLine(stream, words, labels);
  if (words.empty()) return false;
  fasttext::Predictions predictions;
  state_->model.predict(static_cast<int32_t>(labels_.size()), words, predictions);
  for (const auto& [log_probability, label] : predictions)
    probabilities[static_cast<size_t>(label)] = static_cast<double>(std::exp(log_probability));
  return !predictions.empty();
}

}  // namespace athanor::corpus::classifier

// A classifier in fastText's format (.bin, or .ftz where it is quantized), computed by libfasttext.
//
//   const FastTextModel model("lid.176.bin");
//   std::vector<double> probabilities(model.labels().size());
//   model.predict("Ein Satz.", probabilities);
//
// The text is one line to the model, as it is to fastText's own programs: line feeds count as spaces, and the word that
// marks the end of a line follows the text. Labels are without the prefix "__label__". A probability is the number that
// fastText's predict shows, which is the softmax plus 1e-5: it may exceed 1 by that.
// Thread rule: a model does not change. Errors: IoError; Error for a file that check_fasttext_file() refuses.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::classifier {

class FastTextModel {
 public:
  explicit FastTextModel(const std::string& path);
  ~FastTextModel();
  FastTextModel(FastTextModel&&) noexcept;

  const std::vector<std::string>& labels() const { return labels_; }
  // probabilities: one for each of labels(). False, and all are 0, where the model knows nothing of the text.
  bool predict(std::string_view text, std::span<double> probabilities) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::vector<std::string> labels_;
};

}  // namespace athanor::corpus::classifier

#include "athanor/corpus/classifier/fasttext_model.h"
#include "athanor/corpus/language/language_detector.h"

namespace athanor::corpus::language {
namespace {

class FastTextDetector : public LanguageDetector {
 public:
  explicit FastTextDetector(const std::string& path) : model_(path) {}
  const std::vector<std::string>& codes() const override { return model_.labels(); }
  void weigh(std::string_view text, std::span<double> shares) const override { model_.predict(text, shares); }

 private:
  classifier::FastTextModel model_;
};

}  // namespace

std::unique_ptr<LanguageDetector> make_fasttext_detector(const std::string& path) {
  return std::make_unique<FastTextDetector>(path);
}

}  // namespace athanor::corpus::language

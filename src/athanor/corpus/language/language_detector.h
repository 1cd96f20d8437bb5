// What tells languages apart: CLD2 with the tables that it is built with, or a fastText model. Private to language/.
//
//   const std::unique_ptr<LanguageDetector> detector = make_cld2_detector();
//   std::vector<double> shares(detector->codes().size());
//   detector->weigh("Der Ofen hält die Hitze wochenlang.", shares);
//
// Thread rule: a detector does not change.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::language {

class LanguageDetector {
 public:
  virtual ~LanguageDetector() = default;
  virtual const std::vector<std::string>& codes() const = 0;
  // shares: one for each of codes(), 0 to 1, together at most 1.
  virtual void weigh(std::string_view text, std::span<double> shares) const = 0;
};

std::unique_ptr<LanguageDetector> make_cld2_detector();
std::unique_ptr<LanguageDetector> make_fasttext_detector(const std::string& path);

}  // namespace athanor::corpus::language

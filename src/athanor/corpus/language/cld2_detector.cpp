#include <cstdio>  // which CLD2's header forgets

#include <cld2/public/compact_lang_det.h>
#include <cld2/public/encodings.h>

#include <algorithm>
#include <array>
#include <map>

#include "athanor/corpus/language/language.h"
#include "athanor/corpus/language/language_detector.h"
#include "athanor/text/unicode.h"

namespace athanor::corpus::language {
namespace {

// CLD2 multiplies byte counts by 100 in 32 bits, so it is given no more than this at a time.
constexpr size_t kCld2PieceBytes = size_t{1} << 20;
// CLD2 also calls an answer unreliable because a fifth of a long text is in no language, which its percents say already.
constexpr int kShortTextBytes = 256;
constexpr double kUnreliableShare = 0.5;
// Texts of all languages quote English: commands, names, licences. One that has so much of another language for each byte of
// English is written in that. CLD2 itself sums a page up likewise, with a fifth.
constexpr const char* kQuoted = "en";
constexpr double kOtherShare = 0.3;

std::string modern_code(std::string_view code) {
  if (code == "iw") return "he";
  if (code == "jw") return "jv";
  return std::string(code);
}

// A language that CLD2 has a name and a script for; not one of the names that stand for a script or for nothing.
bool is_cld2_language(CLD2::Language language) {
  const std::string_view code = CLD2::LanguageCode(language);
  return code != "un" && !code.starts_with("xx") && !code.starts_with("zz") &&
         CLD2::LanguageRecognizedScript(language, 0) != CLD2::ULScript_Common;
}

// CLD2 judges nothing where a byte is not UTF-8, or is a control character or a noncharacter: they become spaces.
std::string without_odd_bytes(std::string_view text) {
  std::string clean(text);
  for (size_t at = 0; at < text.size();) {
    const text::CodePoint c = text::decode_utf8(text, at);
    const bool control = (c.value < 0x20 && c.value != '\t' && c.value != '\n' && c.value != '\r') ||
                         (c.value >= 0x7F && c.value < 0xA0);
    const bool noncharacter = (c.value >= 0xFDD0 && c.value <= 0xFDEF) || (c.value & 0xFFFE) == 0xFFFE;
    if (control || noncharacter) clean.replace(at, c.size, c.size, ' ');  // kInvalidByte ends in FFFF too
    at += c.size;
  }
  return clean;
}

struct Cld2Answer {
  CLD2::Language languages[3] = {CLD2::UNKNOWN_LANGUAGE, CLD2::UNKNOWN_LANGUAGE, CLD2::UNKNOWN_LANGUAGE};
  int percents[3] = {0, 0, 0};
  int text_bytes = 0;
  bool is_reliable = false;
};

Cld2Answer ask_cld2(std::string_view piece) {
  Cld2Answer answer;
  double scores[3];
  CLD2::ResultChunkVector* const no_chunks = nullptr;
  const CLD2::CLDHints hints{nullptr, nullptr, CLD2::UNKNOWN_ENCODING, CLD2::UNKNOWN_LANGUAGE};
  int valid_bytes = 0;
  const auto ask = [&](std::string_view text) {
    CLD2::ExtDetectLanguageSummaryCheckUTF8(
        text.data(), static_cast<int>(text.size()), /*is_plain_text=*/true, &hints, 0, answer.languages,
        answer.percents, scores, no_chunks, &answer.text_bytes, &answer.is_reliable, &valid_bytes);
  };
  ask(piece);
  if (static_cast<size_t>(valid_bytes) < piece.size()) {
    answer = {};
    ask(without_odd_bytes(piece));
  }
  return answer;
}

// The next piece of the text; it ends after a space or a line feed if there is one in its last quarter.
std::string_view next_cld2_piece(std::string_view text) {
  if (text.size() <= kCld2PieceBytes) return text;
  const size_t space = text.find_last_of(" \n", kCld2PieceBytes - 1);
  size_t end = kCld2PieceBytes;
  if (space != std::string_view::npos && space > kCld2PieceBytes / 4 * 3) end = space + 1;
  while (end > kCld2PieceBytes / 2 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

class Cld2Detector : public LanguageDetector {
 public:
  Cld2Detector() {
    std::map<std::string, std::vector<int>> by_code;  // two of CLD2's names may have one code
    for (int i = 0; i < CLD2::NUM_LANGUAGES; ++i)
      if (const auto language = static_cast<CLD2::Language>(i); is_cld2_language(language))
        by_code[modern_code(CLD2::LanguageCode(language))].push_back(i);
    places_.fill(-1);
    for (const auto& [code, languages] : by_code) {
      for (const int i : languages) places_[static_cast<size_t>(i)] = static_cast<int>(codes_.size());
      codes_.push_back(code);
    }
  }

  const std::vector<std::string>& codes() const override { return codes_; }

  void weigh(std::string_view text, std::span<double> shares) const override {
    std::fill(shares.begin(), shares.end(), 0.0);
    double judged_bytes = 0.0;
    while (!text.empty()) {
      const std::string_view piece = next_cld2_piece(text);
      text.remove_prefix(piece.size());
      const Cld2Answer answer = ask_cld2(piece);
      judged_bytes += answer.text_bytes;
      for (size_t i = 0; i < 3; ++i) {
        const int place = places_[static_cast<size_t>(answer.languages[i])];
        if (place < 0) continue;
        const bool doubtful = !answer.is_reliable && answer.text_bytes < kShortTextBytes;
        const double share = answer.percents[i] / 100.0 * (doubtful ? kUnreliableShare : 1.0);
        shares[static_cast<size_t>(place)] += share * answer.text_bytes;
      }
    }
    if (judged_bytes > 0.0)
      for (double& share : shares) share /= judged_bytes;
  }

 private:
  std::vector<std::string> codes_;
  std::array<int, CLD2::NUM_LANGUAGES> places_;  // of CLD2's numbers in codes_; -1: none
};

}  // namespace

std::unique_ptr<LanguageDetector> make_cld2_detector() {
  return std::make_unique<Cld2Detector>();
}

std::string language_of(std::string_view text) {
  std::map<std::string, double> bytes;
  while (!text.empty()) {
    const std::string_view piece = next_cld2_piece(text);
    text.remove_prefix(piece.size());
    const Cld2Answer answer = ask_cld2(piece);
    for (size_t i = 0; i < 3; ++i)
      if (is_cld2_language(answer.languages[i]))
        bytes[modern_code(CLD2::LanguageCode(answer.languages[i]))] +=
            answer.percents[i] / 100.0 * answer.text_bytes;
  }
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto most = std::max_element(bytes.begin(), bytes.end(), less);
  if (most == bytes.end() || most->second <= 0.0) return "und";
  if (most->first != kQuoted) return most->first;
  const double english = most->second;
  most->second = 0.0;
  const auto other = std::max_element(bytes.begin(), bytes.end(), less);
  return other->second >= kOtherShare * english ? other->first : kQuoted;
}

}  // namespace athanor::corpus::language

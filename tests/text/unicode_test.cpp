// The tables of Unicode 16.0 against ICU, for the characters that the installed ICU knows.
#include "athanor/text/unicode.h"

#include <gtest/gtest.h>
#include <unicode/brkiter.h>
#include <unicode/normalizer2.h>
#include <unicode/stringoptions.h>
#include <unicode/uchar.h>
#include <unicode/uscript.h>
#include <unicode/utext.h>

#include "athanor/text/unicode/clusters.h"
#include "athanor/text/unicode/normal_form.h"
#include "athanor/text/unicode/properties.h"
#include "text/dice.h"

namespace athanor::tests::unicode_test {

using namespace text;
namespace {

constexpr uint32_t kEnd = 0x110000;

// Assigned in Unicode 14 or before; some scripts and cases of older characters changed later.
bool is_known(uint32_t c, int version) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] > 0 && age[0] <= version && !(c >= 0xD800 && c < 0xE000);
}

std::vector<uint32_t> known(int version = 14) {
  std::vector<uint32_t> all;
  for (uint32_t c = 0; c < kEnd; ++c)
    if (is_known(c, version)) all.push_back(c);
  return all;
}

std::string utf8(uint32_t c) {
  std::string text;
  append_utf8(text, c);
  return text;
}

TEST(Unicode, PropertiesAreThoseOfIcu) {
  using unicode::Category;
  const std::pair<Category, uint32_t> categories[] = {
      {Category::uppercase_letter, U_GC_LU_MASK}, {Category::lowercase_letter, U_GC_LL_MASK},
      {Category::titlecase_letter, U_GC_LT_MASK}, {Category::modifier_letter, U_GC_LM_MASK},
      {Category::other_letter, U_GC_LO_MASK},     {Category::nonspacing_mark, U_GC_MN_MASK},
      {Category::spacing_mark, U_GC_MC_MASK},     {Category::enclosing_mark, U_GC_ME_MASK},
      {Category::decimal_number, U_GC_ND_MASK},   {Category::letter_number, U_GC_NL_MASK},
      {Category::other_number, U_GC_NO_MASK},     {Category::connector_punctuation, U_GC_PC_MASK},
      {Category::math_symbol, U_GC_SM_MASK},      {Category::space_separator, U_GC_ZS_MASK},
      {Category::control, U_GC_CC_MASK},          {Category::format, U_GC_CF_MASK},
      {Category::private_use, U_GC_CO_MASK}};
  int differences = 0;  // 34 marks became alphabetic, or spacing, in later versions
  for (const uint32_t c : known()) {
    const auto code = static_cast<UChar32>(c);
    const uint32_t theirs = U_MASK(u_charType(code));
    UErrorCode status = U_ZERO_ERROR;
    bool same = unicode::is_white_space(c) == static_cast<bool>(u_isUWhiteSpace(code)) &&
                unicode::is_alphabetic(c) == static_cast<bool>(u_isUAlphabetic(code)) &&
                unicode::is_han(c) == (uscript_getScript(code, &status) == USCRIPT_HAN);
    for (const auto& [ours, mask] : categories)
      same &= (unicode::category(c) == ours) == ((theirs & mask) != 0);
    same &=
        is_punctuation(c) == ((theirs & U_GC_P_MASK) != 0 || (c < 128 && ispunct(static_cast<int>(c)) != 0));
    differences += same ? 0 : 1;
    ASSERT_EQ(unicode::lowercase(c), static_cast<uint32_t>(u_tolower(code))) << std::hex << c;
  }
  EXPECT_LE(differences, 34);
  EXPECT_EQ(unicode::category(0x2EBF0), unicode::Category::other_letter) << "of Unicode 15.1";
  EXPECT_EQ(unicode::category_in_8(0x2EBF0), unicode::Category::unassigned);
  EXPECT_EQ(unicode::category_in_8('a'), unicode::Category::lowercase_letter);
  EXPECT_EQ(unicode::category(kInvalidByte), unicode::Category::unassigned);
}

std::string icu_form(unicode::NormalForm form, const std::string& text) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* const normalizer =
      form == unicode::NormalForm::nfc    ? icu::Normalizer2::getNFCInstance(status)
      : form == unicode::NormalForm::nfd  ? icu::Normalizer2::getNFDInstance(status)
      : form == unicode::NormalForm::nfkc ? icu::Normalizer2::getNFKCInstance(status)
                                          : icu::Normalizer2::getNFKDInstance(status);
  std::string out;
  icu::StringByteSink<std::string> sink(&out);
  normalizer->normalizeUTF8(0, text, sink, nullptr, status);
  return out;
}

std::string our_form(unicode::NormalForm form, const std::string& text) {
  NormalizedText normalized({.text = text});
  unicode::to_normal_form(form, normalized);
  return normalized.text();
}

constexpr unicode::NormalForm kForms[] = {unicode::NormalForm::nfc, unicode::NormalForm::nfd,
                                          unicode::NormalForm::nfkc, unicode::NormalForm::nfkd};

TEST(Unicode, NormalFormsOfEveryCharacterAreThoseOfIcu) {
  for (const uint32_t c : known(9))
    for (const auto form : kForms)
      ASSERT_EQ(our_form(form, utf8(c)), icu_form(form, utf8(c))) << std::hex << c;
}

// Letters, marks of all classes, Hangul and what decomposes, in any order.
TEST(Unicode, NormalFormsKeepToUnicode9) {
  const std::string later = "\U0001E04A \u32FF \U000105C9";  // of 15, 12.1 and 16
  for (const auto form : kForms) EXPECT_EQ(our_form(form, later), later);
  int marks = 0;
  for (uint32_t c = 0; c < kEnd; ++c) marks += unicode::is_mark_in_9(c) ? 1 : 0;
  EXPECT_EQ(marks, 2097) << "what StripAccents of Hugging Face's tokenizers 0.23 drops";
}

TEST(Unicode, NormalFormsOfAnyTextAreThoseOfIcu) {
  std::vector<uint32_t> busy;
  for (const uint32_t c : known(9))
    if (u_getCombiningClass(static_cast<UChar32>(c)) > 0 ||
        our_form(unicode::NormalForm::nfkd, utf8(c)) != utf8(c) || (c >= 0x1100 && c < 0x1200) || c < 0x80)
      busy.push_back(c);
  Dice dice(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string text;
    for (size_t i = dice.below(12); i-- > 0;) {
      append_utf8(text, busy[dice.below(busy.size())]);
      if (dice.below(3) == 0) append_utf8(text, 0x300 + static_cast<uint32_t>(dice.below(0x70)));
      if (dice.below(4) == 0) append_utf8(text, 0x1161 + static_cast<uint32_t>(dice.below(0x60)));
    }
    for (const auto form : kForms) ASSERT_EQ(our_form(form, text), icu_form(form, text)) << text;
  }
  EXPECT_EQ(our_form(unicode::NormalForm::nfc,
                     "e\u0301\xFF"
                     "e\u0301"),
            "\u00E9\xFF\u00E9");
}

TEST(Unicode, ClustersAreThoseOfIcu) {
  const auto all = known();
  const uint32_t often[] = {'a',    '\r',    '\n',   0x301,  0x200D, 0x1F1E6, 0x1F1FF, 0x1F468, 0x1F469,
                            0xFE0F, 0x1F3FD, 0x1100, 0x1161, 0x11A8, 0xAC00,  0xAC01,  0x600,   0x903};
  Dice dice(3);
  UErrorCode status = U_ZERO_ERROR;
  const std::unique_ptr<icu::BreakIterator> clusters(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (size_t i = dice.below(10) + 1; i-- > 0;)
      append_utf8(text,
                  dice.below(2) == 0 ? often[dice.below(std::size(often))] : all[dice.below(all.size())]);
    UText* const source = utext_openUTF8(nullptr, text.data(), static_cast<int64_t>(text.size()), &status);
    clusters->setText(source, status);
    std::vector<size_t> theirs, ours;
    clusters->first();
    for (int32_t end = clusters->next(); end != icu::BreakIterator::DONE; end = clusters->next())
      theirs.push_back(static_cast<size_t>(end));
    for (size_t at = 0; at < text.size();) ours.push_back(at = unicode::cluster_end(text, at));
    ASSERT_EQ(ours, theirs) << text;
    utext_close(source);
  }
}

}  // namespace
}  // namespace athanor::tests::unicode_test

// Unicode's normal forms (UAX #15) by Unicode 16.0, in a text that knows where its bytes came from.
//
//   NormalizedText text({.text = "e\u0301"});
//   to_normal_form(NormalForm::nfc, text);   // "é"
//
// Bytes that are not UTF-8 divide the text and pass unchanged. Hangul is composed and decomposed by rule.
// Thread rule: pure functions.
#pragma once

#include "athanor/text/normalized_text.h"

namespace athanor::text::unicode {

enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };
void to_normal_form(NormalForm form, NormalizedText& text);

}  // namespace athanor::text::unicode

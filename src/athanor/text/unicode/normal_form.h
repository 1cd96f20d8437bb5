// Unicode's normal forms (UAX #15) in a text that knows where its bytes came from. They are those of Unicode 9.0, as in
// Hugging Face's tokenizers: characters assigned since then stay as they are, and published ids depend on that.
//
//   NormalizedText text({.text = "e\u0301"});
//   to_normal_form(NormalForm::nfc, text);   // "é"
//
// Bytes that are not UTF-8 divide the text and pass unchanged. Hangul is composed and decomposed by rule.
// Thread rule: pure functions.
#pragma once

#include "athanor/text/normalized_text.h"

namespace athanor::text::unicode {

bool is_mark_in_9(uint32_t code_point);  // Mn, Mc, Me of Unicode 9.0

enum class NormalForm : uint8_t { nfc, nfd, nfkc, nfkd };
void to_normal_form(NormalForm form, NormalizedText& text);

}  // namespace athanor::text::unicode

// A rendered conversation as token ids, and which of them are learned.
//
//   const MaskedIds masked = mask_answers(tokenizer, chat->render(talk, {.find_answers = true}));
//   // masked.loss_mask[i] is 1 where masked.ids[i] belongs to an answer
//
// The ids are those of the whole text, as Hugging Face's, as long as no message spells a special token; one that does is
// encoded as ordinary text there (Tokenizer::encode with `ordinary`), so that a message cannot end its own turn. A token
// belongs to an answer if its first byte does. Thread rule: pure function.
#pragma once

#include <cstdint>
#include <vector>

#include "athanor/text/chat_template/chat_template.h"
#include "athanor/text/tokenizer.h"

namespace athanor::data::instructions {

struct MaskedIds {
  std::vector<int32_t> ids;
  std::vector<uint8_t> loss_mask;  // one per id: 1 where it is a target
  int64_t text_bytes = 0;
};

MaskedIds mask_answers(const Tokenizer& tokenizer, const Rendered& rendered);

}  // namespace athanor::data::instructions

namespace athanor {
using athanor::data::instructions::MaskedIds;
}  // namespace athanor

#include "athanor/data/instructions/masked_ids.h"

#include <utility>

namespace athanor::data::instructions {

MaskedIds mask_answers(const Tokenizer& tokenizer, const Rendered& rendered) {
  MaskedIds masked;
  auto encoding =
      tokenizer.encode_with_offsets(rendered.text, {.trims = false, .ordinary_parts = rendered.ordinary});
  masked.ids = std::move(encoding.ids);
  masked.text_bytes = static_cast<int64_t>(rendered.text.size());
  for (const auto& [begin, end] : encoding.ranges)
    masked.loss_mask.push_back(text::touches(rendered.answers, begin, begin + 1) ? 1 : 0);
  return masked;
}

}  // namespace athanor::data::instructions

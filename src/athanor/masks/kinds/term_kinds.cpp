#include "athanor/masks/kinds/term_kind.h"

namespace athanor::masks::kinds {

std::span<const TermKind* const> term_kinds() {
  static constexpr std::array<const TermKind*, 14> kAll = {
      &kCausal,  &kPrefix, &kChunk, &kDocuments, &kFull,   &kBand,    &kWindow,
      &kDilated, &kGlobal, &kBlock, &kBlockBand, &kRandom, &kStrided, &kFixed};
  return kAll;
}

const TermKind* find_term_kind(std::string_view name) {
  for (const TermKind* kind : term_kinds())
    if (kind->name == name) return kind;
  return nullptr;
}

}  // namespace athanor::masks::kinds

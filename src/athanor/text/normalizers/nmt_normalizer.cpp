// Nmt: drops control characters and writes all sorts of white space as a space.
#include "athanor/text/normalizers/normalizer.h"
#include "athanor/text/unicode.h"

namespace athanor::text::normalizers {
namespace {

bool is_dropped(uint32_t c) {
  return (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F ||
         c == 0x9F;
}

bool is_written_as_space(uint32_t c) {
  return c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

class NmtNormalizer final : public Normalizer {
 public:
  void apply(NormalizedText& text) const override {
    Rewriter rewriter(text);
    while (!rewriter.done()) {
      const CodePoint c = decode_utf8(rewriter.rest(), 0);
      if (is_written_as_space(c.value))
        rewriter.put(" ", 0);
      else if (is_dropped(c.value))
        rewriter.drop(c.size);
      else
        rewriter.keep(c.size);
    }
    rewriter.finish();
  }
};

}  // namespace

std::unique_ptr<Normalizer> make_nmt_normalizer() {
  return std::make_unique<NmtNormalizer>();
}

}  // namespace athanor::text::normalizers

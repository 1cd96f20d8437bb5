// tokenizer.json from any bytes; what loads must encode and decode a few texts. Behind a zero byte the input
// may hold a text of its own. Whatever is wrong is an Error.
#include <cstdlib>

#include "athanor/base/error.h"
#include "athanor/text/tokenizer.h"

namespace {

void use(const athanor::Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> ids;
  try {
    ids = tokenizer.encode(text);
    tokenizer.encode_ordinary(text);
  } catch (const athanor::Error&) {
    return;  // a character without a token, a pattern that takes too many steps
  }
  for (const int32_t id : ids)
    if (id < 0 || id >= tokenizer.vocab_size() || !tokenizer.id_of(tokenizer.token_of(id))) std::abort();
  try {
    tokenizer.decode(ids);
  } catch (const athanor::Error&) {
    return;  // a decoder's pattern that takes too many steps
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  std::shared_ptr<const athanor::Tokenizer> tokenizer;
  try {
    tokenizer = athanor::Tokenizer::parse(input.substr(0, zero), "fuzz.json");
  } catch (const athanor::Error&) {
    return 0;
  }
  use(*tokenizer, "");
  use(*tokenizer, "The dog's 12 caf\u00E9s, <s>\u4F60\u597D \xFF\xE4\xBD  \n\n end");
  if (zero != std::string_view::npos) use(*tokenizer, input.substr(zero + 1));
  return 0;
}

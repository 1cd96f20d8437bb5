// tokenizer.json from any bytes; what loads must encode and decode a few texts. Behind zero bytes the input may hold a
// text of its own and files that lie beside the tokenizer. Whatever is wrong is an Error.
#include <algorithm>
#include <cstdlib>
#include <vector>

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
  std::vector<std::string_view> parts;
  for (size_t at = 0, end = 0; end < input.size() && parts.size() < 5; at = end + 1) {
    end = std::min(input.find('\0', at), input.size());
    parts.push_back(input.substr(at, end - at));
  }
  parts.resize(5);
  athanor::TokenizerFiles files;
  for (const auto& [name, part] : {std::pair{"tokenizer_config.json", parts[2]},
                                   {"added_tokens.json", parts[3]},
                                   {"generation_config.json", parts[4]}})
    if (!part.empty()) files[name] = part;
  std::shared_ptr<const athanor::Tokenizer> tokenizer;
  try {
    tokenizer = athanor::Tokenizer::parse(parts[0], "fuzz.json", files);
  } catch (const athanor::Error&) {
    return 0;
  }
  use(*tokenizer, "");
  use(*tokenizer, "The dog's 12 caf\u00E9s, <s>\u4F60\u597D \xFF\xE4\xBD  \n\n end");
  use(*tokenizer, parts[1]);
  for (const int32_t id : tokenizer->encode_document("")) tokenizer->token_of(id);
  return 0;
}

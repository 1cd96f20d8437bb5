// config.json of a Hugging Face folder from any bytes: a model's settings or an Error.
#include <cstdlib>

#include "athanor/base/error.h"
#include "athanor/models/hf_family.h"
#include "athanor/text/tokenizer_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  athanor::token_ids_of_config(text);
  try {
    const athanor::HfConfig config(text, "config.json");
    const athanor::HfFamily& family = athanor::hf_family_of(config);
    if (!(athanor::read_hf_config(family, config).rope_theta > 0.0)) std::abort();
  } catch (const athanor::Error&) {
    return 0;
  }
  return 0;
}

#include "athanor/corpus/dedup/key_method.h"

#include "athanor/base/error.h"
#include "athanor/corpus/dedup/key_methods.h"

namespace athanor::corpus::dedup {

std::unique_ptr<KeyMethod> make_key_method(const DedupOptions& options) {
  check_options(options);
  if (options.method == "exact") return make_exact_keys(options);
  if (options.method == "minhash") return make_minhash_keys(options);
  if (options.method == "paragraph") return make_paragraph_keys(options);
  if (options.method == "sentence") return make_sentence_keys(options);
  throw base::ConfigError("dedup.method: got \"" + options.method +
                          "\", expected a method with keys: exact, minhash, paragraph, sentence");
}

}  // namespace athanor::corpus::dedup

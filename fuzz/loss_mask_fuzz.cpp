// A .loss_mask file from any bytes: two bytes say of how many tokens, the rest is the file. What opens must say 0 or 1 of each token, as
// often 1 as its end says if check_count() agrees. Whatever is wrong is an Error.
#include <stdlib.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/data/loss_mask.h"
#include "beside_token_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const athanor::fuzz::OneFile file;
  uint16_t tokens = 0;
  if (size < sizeof tokens) return 0;
  std::memcpy(&tokens, data, sizeof tokens);
  file.write({reinterpret_cast<const char*>(data) + sizeof tokens, size - sizeof tokens});
  try {
    const athanor::LossMask mask(file.path, tokens);
    std::vector<uint8_t> counts(tokens);
    mask.read(0, counts);
    int64_t counted = 0;
    for (const uint8_t count : counts) {
      if (count > 1) std::abort();
      counted += count;
    }
    mask.check_count();
    if (counted != mask.num_counted()) std::abort();
  } catch (const athanor::Error&) {
    return 0;
  }
  return 0;
}

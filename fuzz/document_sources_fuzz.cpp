// A .sources file from any bytes: two bytes say of how many documents, two of how many tokens, the rest is the file. What opens must
// answer for each document. Whatever is wrong is an Error.
#include <stdlib.h>

#include <cstring>

#include "athanor/base/error.h"
#include "athanor/data/provenance/document_sources.h"
#include "beside_token_files.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const athanor::fuzz::OneFile file;
  uint16_t counts[2];
  if (size < sizeof counts) return 0;
  std::memcpy(counts, data, sizeof counts);
  file.write({reinterpret_cast<const char*>(data) + sizeof counts, size - sizeof counts});
  try {
    const athanor::DocumentSources sources(file.path, counts[0], counts[1]);
    for (int64_t document = 0; document < counts[0]; ++document) {
      const athanor::DocumentSource source = sources.of(document);
      if (source.record < 0 || source.line < 0 || source.file.size() > size) std::abort();
    }
    sources.check_hash();
  } catch (const athanor::Error&) {
    return 0;
  }
  return 0;
}

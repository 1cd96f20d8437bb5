// The check that a fastText model goes through before libfasttext reads it, on any bytes. Whatever is wrong is an Error.
#include "athanor/base/error.h"
#include "athanor/corpus/classifier/fasttext_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    athanor::check_fasttext_file({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const athanor::Error&) {
    return 0;
  }
  return 0;
}

// CSV, stored and read as the first byte says (reading.h).
#include "athanor/documents/csv_documents.h"
#include "reading.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return athanor::fuzz::run([&] {
    athanor::fuzz::Input input(data, size);
    const auto source = input.source();
    athanor::for_each_csv_document(
        *source, "fuzz", input.options(), '\0',
        [&](std::string_view text, const athanor::RecordPlace& place) { input.take(text, place); });
  });
}

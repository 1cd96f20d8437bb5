// Plain text with separators, and the recognition of what is none; stored and read as the first byte says (reading.h).
#include "athanor/documents/text_documents.h"
#include "reading.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return athanor::fuzz::run([&] {
    athanor::fuzz::Input input(data, size);
    const auto source = input.source();
    if (!athanor::foreign_format(source->head(athanor::kFormatProbeBytes), true).empty()) return;
    athanor::for_each_text_document(
        *source, "fuzz", {"<|endoftext|>", "--"}, input.options(),
        [&](std::string_view text, const athanor::RecordPlace& place) { input.take(text, place); });
  });
}

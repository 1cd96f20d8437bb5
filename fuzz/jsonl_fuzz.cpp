// JSON of every layout, stored and read as the first byte says (reading.h).
#include "athanor/documents/json_documents.h"
#include "reading.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return athanor::fuzz::run([&] {
    athanor::fuzz::Input input(data, size);
    const auto source = input.source();
    const std::string_view head = source->head(athanor::kFormatProbeBytes);
    athanor::JsonLayout layout = athanor::recognize_json(head);
    if (layout == athanor::JsonLayout::none) layout = athanor::JsonLayout::lines;
    athanor::for_each_json_document(
        *source, "fuzz", input.options(), layout,
        [&](std::string_view text, const athanor::RecordPlace& place) { input.take(text, place); });
  });
}

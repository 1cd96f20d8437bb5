// A checkpoint's manifest from any bytes. The checksum would stop nearly all of them at the door, so it is
// put right here: what comes behind it is read or refused with an Error. What was read prints to text that
// reads and prints the same.
#include <cstdlib>

#include "athanor/base/error.h"
#include "athanor/checkpoint/format/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t line = text.find('\n');
  const std::string_view rest = line == std::string_view::npos ? text : text.substr(line + 1);
  try {
    athanor::parse_manifest(text, "fuzz.json");
  } catch (const athanor::Error&) {
  }
  std::string printed;
  try {
    printed = athanor::print_manifest(athanor::parse_manifest(athanor::seal_manifest(rest), "fuzz.json"));
  } catch (const athanor::Error&) {
    return 0;
  }
  if (athanor::print_manifest(athanor::parse_manifest(printed, "printed.json")) != printed) std::abort();
  return 0;
}

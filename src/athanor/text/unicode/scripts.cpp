#include "athanor/text/unicode/scripts.h"

#include "athanor/text/unicode.h"
#include "athanor/text/unicode/properties.h"
#include "athanor/text/unicode/tables.h"

namespace athanor::text::unicode {

Script script(uint32_t c) {
  return c == kInvalidByte ? Script::common : static_cast<Script>(value_in(kScripts, kScriptsSize, c));
}

}  // namespace athanor::text::unicode

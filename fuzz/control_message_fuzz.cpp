// A control message from any bytes, as a worker, an agent, a launcher and an operator read it: read or refused with an Error. What was read is
// written as text that reads the same.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "athanor/base/error.h"
#include "athanor/control/messages.h"
#include "athanor/control/operator_messages.h"

namespace {

template <typename Message>
void check_reading(std::string_view text, Message (*decode)(std::string_view)) {
  Message message;
  try {
    message = decode(text);
  } catch (const athanor::Error&) {
    return;
  }
  if (decode(athanor::encode(message)) != message) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check_reading(text, athanor::decode_worker_message);
  check_reading(text, athanor::decode_agent_message);
  check_reading(text, athanor::decode_operator_request);
  check_reading(text, athanor::decode_operator_answer);
  return 0;
}

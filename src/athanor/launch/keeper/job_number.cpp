#include "athanor/launch/keeper/job_number.h"

#include <fmt/core.h>
#include <sys/random.h>

#include <array>

#include "athanor/base/check.h"
#include "athanor/control/messages.h"

namespace athanor::launch::keeper {

std::string random_job_number() {
  std::array<unsigned char, control::kJobDigits / 2> bytes{};
  check(getrandom(bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()),
        "launch: no random bytes");
  std::string digits;
  for (const unsigned char byte : bytes) digits += fmt::format("{:02x}", byte);
  return digits;
}

}  // namespace athanor::launch::keeper

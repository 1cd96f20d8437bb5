#include "athanor/control/pulse.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <optional>

#include "athanor/control/descriptor.h"

namespace athanor::tests::pulse_test {
namespace {

TEST(Pulse, IsSeenThroughItsDescriptor) {
  std::optional<Pulse> pulse(std::in_place);
  const Descriptor received(dup(pulse->fd()));
  const PulseReader reader(received.get());
  for (const uint64_t before = reader.count(); reader.count() < before + 2;) usleep(1000);
  pulse.reset();
  const uint64_t last = reader.count();
  EXPECT_EQ(reader.count(), last);
}

}  // namespace
}  // namespace athanor::tests::pulse_test

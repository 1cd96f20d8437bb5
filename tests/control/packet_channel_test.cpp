#include "athanor/control/packet_channel.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "athanor/base/error.h"

namespace athanor::tests::packet_channel_test {
namespace {

using ::testing::HasSubstr;

size_t open_descriptors() {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    count += entry.exists() ? 1 : 0;
  return count;
}

std::string error_of(PacketChannel& channel) {
  try {
    channel.receive();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Past the checks of PacketChannel::send().
void send_raw(int socket, size_t bytes, size_t descriptors) {
  std::string text(bytes, 'x');
  iovec piece{text.data(), text.size()};
  std::vector<char> beside(CMSG_SPACE(sizeof(int) * descriptors));
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  if (descriptors > 0) {
    header.msg_control = beside.data();
    header.msg_controllen = beside.size();
    cmsghdr* part = CMSG_FIRSTHDR(&header);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(sizeof(int) * descriptors);
    const std::vector<int> standard_error(descriptors, 2);
    std::memcpy(CMSG_DATA(part), standard_error.data(), sizeof(int) * descriptors);
  }
  ASSERT_EQ(sendmsg(socket, &header, 0), static_cast<ssize_t>(bytes));
}

TEST(PacketChannel, KeepsPacketsApartAndInOrder) {
  auto [here, there] = PacketChannel::pair();
  EXPECT_FALSE(there.receive());
  EXPECT_FALSE(there.closed());
  const std::string longest(kPacketBytes, 'z');
  for (const std::string& text : {std::string("one"), std::string("two"), longest})
    EXPECT_EQ(here.send(text), Sent::now);
  EXPECT_EQ(there.receive()->text, "one");
  EXPECT_EQ(there.receive()->text, "two");
  EXPECT_EQ(there.receive()->text, longest);
  EXPECT_FALSE(there.receive());
  EXPECT_EQ(there.send("back"), Sent::now);
  EXPECT_EQ(here.receive()->text, "back");
}

TEST(PacketChannel, DescriptorsArriveAndCloseOnExec) {
  auto [here, there] = PacketChannel::pair();
  const Descriptor first(memfd_create("first", 0)), second(memfd_create("second", 0));
  const int both[] = {first.get(), second.get()};
  EXPECT_EQ(here.send("two", both), Sent::now);
  auto packet = there.receive();
  ASSERT_EQ(packet->descriptors.size(), 2u);
  const char* texts[] = {"to the first", "to the second"};
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(fcntl(packet->descriptors[i].get(), F_GETFD), FD_CLOEXEC);
    const auto length = static_cast<ssize_t>(std::strlen(texts[i]));
    ASSERT_EQ(pwrite(packet->descriptors[i].get(), texts[i], static_cast<size_t>(length), 0), length);
    char got[32] = {};
    ASSERT_EQ(pread(both[i], got, sizeof(got), 0), length);
    EXPECT_STREQ(got, texts[i]);
  }
}

TEST(PacketChannel, AsManyDescriptorsAsAllowed) {
  auto [here, there] = PacketChannel::pair();
  const std::vector<int> many(kPacketDescriptors, STDERR_FILENO),
      too_many(kPacketDescriptors + 1, STDERR_FILENO);
  EXPECT_EQ(here.send("many", many), Sent::now);
  EXPECT_EQ(there.receive()->descriptors.size(), kPacketDescriptors);
  EXPECT_THROW(here.send("too many", too_many), Error);
  EXPECT_THROW(here.send(""), Error);
  EXPECT_THROW(here.send(std::string(kPacketBytes + 1, 'x')), Error);
}

TEST(PacketChannel, RefusesWhatIsTooMuchAndKeepsNoDescriptor) {
  auto [here, there] = PacketChannel::pair();
  const size_t before = open_descriptors();
  send_raw(here.fd(), kPacketBytes + 1, 3);
  EXPECT_THAT(error_of(there), HasSubstr("a packet of more than 65536 bytes"));
  send_raw(here.fd(), 1, 253);  // as many as the system takes
  EXPECT_THAT(error_of(there), HasSubstr("descriptors were lost: more than 250"));
  EXPECT_EQ(open_descriptors(), before);
  EXPECT_THROW(PacketChannel(Descriptor(socket(AF_UNIX, SOCK_STREAM, 0))), Error);
}

// A peer that does not read: what must arrive is kept with its descriptors, in order; the rest is shed and counted.
TEST(PacketChannel, ShedsWhatIsDroppableAndKeepsTheRest) {
  auto [here, there] = PacketChannel::pair();
  int sent = 0;
  while (here.send(fmt::format("{}", sent) + std::string(10'000, ' ')) == Sent::now) ++sent;
  ASSERT_TRUE(here.has_unsent());
  const Descriptor memory(memfd_create("kept", 0));
  {
    const Descriptor copy(fcntl(memory.get(), F_DUPFD_CLOEXEC, 0));
    const int descriptors[] = {copy.get()};
    EXPECT_EQ(here.send("with a descriptor", descriptors), Sent::kept);
  }
  EXPECT_EQ(here.send("progress", {}, Delivery::droppable), Sent::shed);
  EXPECT_EQ(here.send("progress", {}, Delivery::droppable), Sent::shed);
  EXPECT_EQ(here.num_shed(), 2u);
  EXPECT_EQ(std::stoi(there.receive()->text), 0);
  EXPECT_EQ(here.send("progress", {}, Delivery::droppable),
            Sent::shed);  // there may be room, but others wait
  for (int i = 1; i <= sent; ++i) {
    here.flush();
    EXPECT_EQ(std::stoi(there.receive()->text), i);
  }
  here.flush();
  const auto last = there.receive();
  ASSERT_TRUE(last);
  EXPECT_EQ(last->text, "with a descriptor");
  ASSERT_EQ(last->descriptors.size(), 1u);
  EXPECT_EQ(ftruncate(last->descriptors[0].get(), 7), 0);
  EXPECT_EQ(lseek(memory.get(), 0, SEEK_END), 7);
  EXPECT_FALSE(here.has_unsent());
  EXPECT_EQ(here.send("progress", {}, Delivery::droppable), Sent::now);
  EXPECT_EQ(here.num_shed(), 3u);
}

TEST(PacketChannel, DoesNotKeepWithoutBound) {
  auto [here, there] = PacketChannel::pair();
  const std::string text(kPacketBytes, 'x');
  while (here.send(text) == Sent::now) continue;
  for (size_t i = 1; i < kMostUnsent; ++i) EXPECT_EQ(here.send("x"), Sent::kept);
  EXPECT_THROW(here.send("x"), IoError);
}

class PacketChannelEnd : public ::testing::TestWithParam<bool> {};

TEST_P(PacketChannelEnd, WhatWasSentBeforeArrives) {
  const bool sends_first = GetParam();
  auto [here, there] = PacketChannel::pair();
  EXPECT_EQ(there.send("never read"), Sent::now);  // so that the system reports a reset
  EXPECT_EQ(here.send("last words"), Sent::now);
  { const PacketChannel closing = std::move(here); }
  if (sends_first) {
    EXPECT_EQ(there.send("to nobody"), Sent::lost);
  }
  EXPECT_FALSE(there.closed());
  EXPECT_EQ(there.receive()->text, "last words");
  EXPECT_FALSE(there.receive());
  EXPECT_TRUE(there.closed());
  EXPECT_EQ(there.send("to nobody"), Sent::lost);
  EXPECT_FALSE(there.receive());
}

INSTANTIATE_TEST_SUITE_P(SendingFirst, PacketChannelEnd, ::testing::Bool());

}  // namespace
}  // namespace athanor::tests::packet_channel_test

#include "athanor/control/listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <csignal>
#include <filesystem>
#include <string>

#include "athanor/base/error.h"
#include "support/temporary_folder.h"

namespace athanor::tests::listener_test {
namespace {

namespace fs = std::filesystem;

struct RuntimeFolder {
  RuntimeFolder() { fs::create_directory(path()); }
  std::string path() const { return folder.path("runtime"); }
  TemporaryFolder folder;
};

mode_t mode_of(const std::string& path) {
  struct stat found {};
  EXPECT_EQ(stat(path.c_str(), &found), 0);
  return found.st_mode & 0777;
}

size_t entries(const std::string& folder) {
  size_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder)) count += entry.exists() ? 1 : 0;
  return count;
}

TEST(Listener, OnlyThisUserEnters) {
  const RuntimeFolder runtime;
  std::string path;
  {
    Listener listener({.runtime_folder = runtime.path()});
    path = listener.path();
    EXPECT_TRUE(path.starts_with(runtime.path() + "/athanor-"));
    EXPECT_EQ(mode_of(fs::path(path).parent_path()), 0700u);
    EXPECT_EQ(mode_of(path), 0600u);
    EXPECT_FALSE(listener.accept());
    PacketChannel worker = PacketChannel::connect(path);
    auto channel = listener.accept();
    ASSERT_TRUE(channel);
    EXPECT_EQ(fcntl(channel->fd(), F_GETFD), FD_CLOEXEC);
    worker.send("hello");
    EXPECT_EQ(channel->receive()->text, "hello");
  }
  EXPECT_EQ(entries(runtime.path()), 0u);
  EXPECT_THROW(PacketChannel::connect(path), IoError);
  EXPECT_THROW(PacketChannel::connect(std::string(200, 'x')), Error);
}

TEST(Listener, RefusesOtherUsersByTheirCredentials) {
  const RuntimeFolder runtime;
  Listener listener({.runtime_folder = runtime.path(), .user = geteuid() + 1});
  PacketChannel worker = PacketChannel::connect(listener.path());
  EXPECT_FALSE(listener.accept());
  EXPECT_EQ(listener.num_refused(), 1u);
  EXPECT_FALSE(worker.receive());
  EXPECT_TRUE(worker.closed());
}

TEST(Listener, AFolderThatOthersWriteOrWithALongNameIsNotTaken) {
  const RuntimeFolder runtime;
  const std::string open = runtime.path() + "/open", longer = runtime.path() + "/" + std::string(90, 'x');
  fs::create_directory(open);
  chmod(open.c_str(), 0777);
  fs::create_directory(longer);
  for (const std::string& folder : {open, longer, runtime.path() + "/none", std::string()}) {
    const Listener listener({.runtime_folder = folder});
    EXPECT_TRUE(listener.path().starts_with("/tmp/athanor-")) << folder;
    EXPECT_LT(listener.path().size(), sizeof(sockaddr_un::sun_path));
    if (!folder.empty() && fs::exists(folder)) {
      EXPECT_EQ(entries(folder), 0u);
    }
  }
}

TEST(Listener, RemovesWhatAKilledOneLeftAndNothingElse) {
  const RuntimeFolder runtime;
  const pid_t killed = fork();
  if (killed == 0) {
    const Listener listener({.runtime_folder = runtime.path()});
    raise(SIGKILL);
  }
  ASSERT_EQ(waitpid(killed, nullptr, 0), killed);
  EXPECT_EQ(entries(runtime.path()), 1u);
  fs::create_directory(runtime.path() + "/athanor-other");
  Listener living({.runtime_folder = runtime.path()});
  EXPECT_EQ(entries(runtime.path()), 2u);
  const Listener third({.runtime_folder = runtime.path()});
  EXPECT_EQ(entries(runtime.path()), 3u);
  while (living.accept()) continue;  // the third one looked who listens
  const PacketChannel worker = PacketChannel::connect(living.path());
  EXPECT_TRUE(living.accept());
}

}  // namespace
}  // namespace athanor::tests::listener_test

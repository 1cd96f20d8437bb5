#include "athanor/control/listener.h"

#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "athanor/base/check.h"
#include "athanor/base/file.h"

namespace athanor::control {
namespace {

constexpr const char *kPrefix = "athanor-", *kName = "agent", *kUnready = "agent.new";
constexpr size_t kRandomLetters = 6;

[[noreturn]] void fail_listening(const std::string& what, int code) {
  throw IoError(fmt::format("control socket: {}: {}", what, std::strerror(code)), code);
}

bool is_own_folder(const std::string& path) {
  struct stat found {};
  return lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
         (found.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool fits_socket(const std::string& folder) {
  const size_t length = folder.size() + 1 + std::strlen(kPrefix) + kRandomLetters + 1 + std::strlen(kUnready);
  return length < sizeof(sockaddr_un::sun_path);
}

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size());
  return address;
}

Descriptor make_socket() {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.get() < 0) fail_listening("socket", errno);
  return socket;
}

// Of launchers that were killed. A socket has its final name only when somebody listens, so one that refuses is dead.
void remove_dead_folders(const std::string& parent) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(parent, ignored)) {
    const std::string folder = entry.path(), path = folder + "/" + kName;
    if (!entry.path().filename().string().starts_with(kPrefix) || !is_own_folder(folder)) continue;
    if (path.size() >= sizeof(sockaddr_un::sun_path)) continue;
    const Descriptor socket = make_socket();
    const sockaddr_un address = address_of(path);
    if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ||
        errno != ECONNREFUSED)
      continue;
    std::filesystem::remove_all(folder, ignored);
  }
}

}  // namespace

Listener::Listener(const ListenerOptions& options) : user_(options.user) {
  const bool own = !options.runtime_folder.empty() && fits_socket(options.runtime_folder) &&
                   is_own_folder(options.runtime_folder);
  const std::string parent = own ? options.runtime_folder : "/tmp";
  remove_dead_folders(parent);
  folder_ = fmt::format("{}/{}XXXXXX", parent, kPrefix);
  if (mkdtemp(folder_.data()) == nullptr) {
    const int code = errno;
    fail_listening(fmt::format("cannot make a folder in '{}'", parent), code);
  }
  path_ = fmt::format("{}/{}", folder_, kName);
  const std::string unready = fmt::format("{}/{}", folder_, kUnready);
  int code = 0;
  try {
    socket_ = make_socket();
    const sockaddr_un address = address_of(unready);
    if (bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        chmod(unready.c_str(), S_IRUSR | S_IWUSR) != 0 || listen(socket_.get(), SOMAXCONN) != 0 ||
        rename(unready.c_str(), path_.c_str()) != 0)
      code = errno;
  } catch (const IoError& error) {
    code = error.code();
  }
  if (code == 0) return;
  unlink(unready.c_str());
  rmdir(folder_.c_str());
  fail_listening(fmt::format("cannot listen at '{}'", path_), code);
}

Listener::Listener(Descriptor socket, const std::string& path, uid_t user)
    : user_(user), folder_(parent_folder(path)), path_(path), socket_(std::move(socket)) {
  check(!folder_.empty(), "control socket: got '{}', expected a path", path);
}

Listener::~Listener() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

std::optional<PacketChannel> Listener::accept() {
  while (true) {
    Descriptor socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.get() < 0) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN) return std::nullopt;
      fail_listening("cannot accept a connection", errno);
    }
    if (peer_of(socket.get()).user == user_) return PacketChannel(std::move(socket));
    ++num_refused_;
  }
}

}  // namespace athanor::control

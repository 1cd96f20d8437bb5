#include "athanor/checkpoint/format/staged_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <random>
#include <sstream>
#include <utility>

#include "athanor/base/check.h"

namespace athanor::checkpoint::format {
namespace {

constexpr std::string_view kTmp = ".tmp-", kReplaced = ".replaced", kRemoved = ".removed";
constexpr size_t kTokenDigits = 16;

// The path without trailing slashes, so that the name follows the last slash.
std::string trim(const std::string& path) {
  const size_t last = path.find_last_not_of('/');
  check(last != std::string::npos, "'{}': got no name of a folder", path);
  return path.substr(0, last + 1);
}

std::string last_name(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

std::string hidden_path(const std::string& path, std::string_view suffix) {
  const std::string final_path = trim(path), name = last_name(final_path);
  return join_path(parent_folder(final_path), "." + name + std::string(suffix));
}

FolderLock take_lock(Env& env, const std::string& final_path) {
  const std::string parent = parent_folder(final_path);
  env.create_folders(parent);
  auto lock = FolderLock::try_take(parent);
  if (!lock)
    throw IoError(fmt::format("'{}': another process is writing in this folder", parent), EWOULDBLOCK);
  return std::move(*lock);
}

}  // namespace

std::optional<FolderLock> FolderLock::try_take(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
    ::close(fd);
    return std::nullopt;
  }
  return FolderLock(fd);
}

// Lines like "1: FLOCK  ADVISORY  WRITE 4711 fd:01:1234567 0 EOF".
std::optional<int64_t> lock_holder(const std::string& folder) {
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) return std::nullopt;
  const std::string file =
      fmt::format("{:02x}:{:02x}:{}", major(info.st_dev), minor(info.st_dev), info.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, manner, access, where;
    int64_t pid = 0;
    if (words >> number >> kind >> manner >> access >> pid >> where && kind == "FLOCK" && where == file &&
        pid > 0)
      return pid;
  }
  return std::nullopt;
}

FolderLock::FolderLock(FolderLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FolderLock::~FolderLock() {
  if (fd_ >= 0) ::close(fd_);
}

std::string staged_path(const std::string& final_path, uint64_t token) {
  return hidden_path(final_path, fmt::format("{}{:016x}", kTmp, token));
}

std::string replaced_path(const std::string& final_path) {
  return hidden_path(final_path, kReplaced);
}

std::optional<std::string> staged_for(const std::string& hidden_name) {
  if (hidden_name.size() < 2 || hidden_name[0] != '.') return std::nullopt;
  const std::string_view body = std::string_view(hidden_name).substr(1);
  for (const std::string_view suffix : {kReplaced, kRemoved})
    if (body.size() > suffix.size() && body.substr(body.size() - suffix.size()) == suffix)
      return std::string(body.substr(0, body.size() - suffix.size()));
  const size_t length = kTmp.size() + kTokenDigits;
  if (body.size() <= length) return std::nullopt;
  const std::string_view tail = body.substr(body.size() - length);
  if (tail.substr(0, kTmp.size()) != kTmp ||
      tail.substr(kTmp.size()).find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return std::nullopt;
  return std::string(body.substr(0, body.size() - length));
}

void remove_folder(Env& env, const std::string& path) {
  const std::string out = hidden_path(path, kRemoved);
  if (env.exists(out)) env.remove_all(out);
  env.rename(path, out);
  env.remove_all(out);
}

void clean_leftovers(Env& env, const std::string& parent, const std::string& name,
                     std::vector<std::string>* stuck) {
  const std::string final_path = join_path(parent, name), replaced = replaced_path(final_path);
  if (env.exists(replaced) && !env.exists(final_path)) env.rename(replaced, final_path);
  for (const std::string& other : env.list(parent)) {
    if (staged_for(other) != name) continue;
    try {
      env.remove_all(join_path(parent, other));
    } catch (const IoError& error) {
      if (stuck != nullptr)
        stuck->push_back(fmt::format("what is left of '{}' stays: {}", final_path, error.what()));
    }
  }
}

StagedFolder::StagedFolder(Env& env, const std::string& final_path)
    : env_(env), final_path_(trim(final_path)), lock_(take_lock(env, final_path_)) {
  const std::string parent = parent_folder(final_path_);
  clean_leftovers(env, parent, last_name(final_path_));
  std::random_device random;
  token_ = (uint64_t{random()} << 32) | random();
  path_ = staged_path(final_path_, token_);
  env_.create_folders(path_);
}

StagedFolder::~StagedFolder() {
  if (done_) return;
  try {
    env_.remove_all(path_);
  } catch (const Failure&) {  // it is hidden; the next writer cleans up
  }
}

void StagedFolder::commit() {
  const std::string parent = parent_folder(final_path_), replaced = replaced_path(final_path_);
  env_.sync_folder(path_);
  const bool replaces = env_.exists(final_path_);
  if (replaces) env_.rename(final_path_, replaced);
  try {
    env_.rename(path_, final_path_);
  } catch (const IoError&) {
    if (replaces) env_.rename(replaced, final_path_);
    throw;
  }
  done_ = true;
  env_.sync_folder(parent);
  env_.sync_folder(parent_folder(parent));  // the parent itself may be new
  if (!replaces) return;
  try {
    env_.remove_all(replaced);
  } catch (const IoError&) {  // it is hidden; the next writer cleans up
  }
}

}  // namespace athanor::checkpoint::format

#include "athanor/launch/job_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "athanor/base/check.h"
#include "athanor/base/file.h"

namespace athanor::launch {
namespace {

constexpr size_t kMostBytes = 4096;

// Locked, as long as it lies at `path`: another launcher may have removed it meanwhile.
enum class Lock { taken, others, gone };
Lock lock(int fd, const std::string& path) {
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) throw_io_error("lock", path, errno);
    return Lock::others;
  }
  struct stat here {
  }, there{};
  const bool same = fstat(fd, &here) == 0 && stat(path.c_str(), &there) == 0 && here.st_ino == there.st_ino &&
                    here.st_dev == there.st_dev;
  return same ? Lock::taken : Lock::gone;
}

std::optional<JobPlace> read_place(int fd) {
  std::string text(kMostBytes, '\0');
  const ssize_t length = pread(fd, text.data(), text.size(), 0);
  if (length < 0) return std::nullopt;
  text.resize(static_cast<size_t>(length));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("pid") || !json["pid"].is_number_integer()) return std::nullopt;
  const auto text_of = [&](const char* key) {
    return json.contains(key) && json[key].is_string() ? json[key].get<std::string>() : std::string();
  };
  return JobPlace{.pid = json["pid"].get<int64_t>(), .host = text_of("host"), .socket = text_of("socket")};
}

}  // namespace

JobPlace this_place() {
  char host[256] = "";
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return {.pid = getpid(), .host = host};
}

JobFile::~JobFile() {
  if (file_.get() >= 0) unlink(path_.c_str());
}

void JobFile::take(const std::string& run_folder, const JobPlace& place) {
  if (file_.get() >= 0 || run_folder.empty() || !system_env().is_folder(run_folder)) return;
  const std::string path = join_path(run_folder, kJobFileName);
  Descriptor file;
  for (Lock found = Lock::gone; found == Lock::gone;) {
    file = Descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
    if (file.get() < 0) throw_io_error("open", path, errno);
    found = lock(file.get(), path);
    if (found != Lock::others) continue;
    const auto other = read_place(file.get());
    fail("'{}': another launcher trains this run{}", run_folder,
         other ? fmt::format(" (process {} on {})", other->pid, other->host) : "");
  }
  path_ = path;
  file_ = std::move(file);
  write(place);
}

void JobFile::adopt(const std::string& path, Descriptor file, const JobPlace& place) {
  path_ = path;
  file_ = std::move(file);
  write(place);
}

void JobFile::write(const JobPlace& place) {
  const std::string text =
      nlohmann::ordered_json({{"pid", place.pid}, {"host", place.host}, {"socket", place.socket}}).dump() +
      '\n';
  if (ftruncate(file_.get(), 0) != 0 ||
      pwrite(file_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    throw_io_error("write", path_, errno);
}

std::optional<JobPlace> read_job_file(const std::string& run_folder) {
  const std::string path = join_path(run_folder, kJobFileName);
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file.get() < 0 ? std::nullopt : read_place(file.get());
}

}  // namespace athanor::launch

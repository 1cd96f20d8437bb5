#include "athanor/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/large_file.h"

namespace athanor::base {
namespace {

namespace fs = std::filesystem;

constexpr size_t kFileBufferBytes = size_t{1} << 20;

class PosixWritableFile final : public WritableFile {
 public:
  PosixWritableFile(std::string path, int flags) : path_(std::move(path)) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
    if (fd_ < 0) throw_io_error("write", path_, errno);
  }
  ~PosixWritableFile() override {
    if (fd_ < 0) return;
    try {
      flush();
    } catch (const IoError&) {  // a destructor cannot report; whoever needs to know calls close()
    }
    ::close(fd_);
  }
  PosixWritableFile(const PosixWritableFile&) = delete;
  PosixWritableFile& operator=(const PosixWritableFile&) = delete;

  void append(const void* data, size_t size_bytes) override {
    if (buffer_.size() + size_bytes <= kFileBufferBytes) {
      buffer_.append(static_cast<const char*>(data), size_bytes);
      return;
    }
    flush();
    write_all(static_cast<const char*>(data), size_bytes);
  }
  void flush() override {
    try {
      write_all(buffer_.data(), buffer_.size());
    } catch (const IoError&) {
      buffer_.clear();  // the destructor does not try again
      throw;
    }
    buffer_.clear();
  }
  void sync() override {
    flush();
    if (::fsync(fd_) != 0) throw_io_error("sync", path_, errno);
  }
  void close() override {
    if (fd_ < 0) return;
    flush();
    const int fd = std::exchange(fd_, -1);
    if (::close(fd) != 0) throw_io_error("close", path_, errno);
  }

 private:
  void write_all(const char* data, size_t size_bytes) const {
    while (size_bytes > 0) {
      const ssize_t written = ::write(fd_, data, size_bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) throw_io_error("write", path_, errno);
      data += written;
      size_bytes -= static_cast<size_t>(written);
    }
  }
  std::string path_;
  std::string buffer_;
  int fd_ = -1;
};

class PosixReadableFile final : public ReadableFile {
 public:
  explicit PosixReadableFile(std::string path) : path_(std::move(path)) {
    fd_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd_ < 0) throw_io_error("read", path_, errno);
    struct stat info {};
    int code = ::fstat(fd_, &info) != 0 ? errno : 0;
    if (code == 0 && S_ISDIR(info.st_mode)) code = EISDIR;
    if (code != 0) {
      ::close(fd_);
      throw_io_error("read", path_, code);
    }
    size_bytes_ = static_cast<uint64_t>(info.st_size);
    if (S_ISREG(info.st_mode)) return;
    try {
      read_pipe();
    } catch (const IoError&) {
      ::close(fd_);
      throw;
    }
  }
  ~PosixReadableFile() override { ::close(fd_); }
  PosixReadableFile(const PosixReadableFile&) = delete;
  PosixReadableFile& operator=(const PosixReadableFile&) = delete;

  uint64_t size_bytes() const override { return size_bytes_; }
  void read(uint64_t offset, void* data, size_t size_bytes) const override {
    auto* out = static_cast<char*>(data);
    if (offset < piped_.size() && size_bytes <= piped_.size() - offset) {
      std::memcpy(out, piped_.data() + offset, size_bytes);
      return;
    }
    while (size_bytes > 0) {
      const ssize_t got = ::pread(fd_, out, size_bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_io_error("read", path_, errno);
      if (got == 0)
        throw IoError(fmt::format("'{}' ends at byte {}, expected {} more", path_, offset, size_bytes), EIO);
      out += got;
      offset += static_cast<uint64_t>(got);
      size_bytes -= static_cast<size_t>(got);
    }
  }

 private:
  // A pipe, as the shell's <(...) is one, has neither size nor place: it is read once, as a whole.
  void read_pipe() {
    constexpr size_t kMaxBytes = size_t{1} << 30;
    std::string chunk(size_t{64} << 10, '\0');
    while (true) {
      const ssize_t got = ::read(fd_, chunk.data(), chunk.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_io_error("read", path_, errno);
      if (got == 0) break;
      if (piped_.size() + static_cast<size_t>(got) > kMaxBytes) throw_io_error("read", path_, EFBIG);
      piped_.append(chunk.data(), static_cast<size_t>(got));
    }
    size_bytes_ = piped_.size();
  }

  std::string path_;
  int fd_ = -1;
  uint64_t size_bytes_ = 0;
  std::string piped_;
};

class SystemEnv : public Env {
 public:
  std::unique_ptr<WritableFile> create(const std::string& path) override {
    return std::make_unique<PosixWritableFile>(path, O_TRUNC);
  }
  std::unique_ptr<WritableFile> create_large(const std::string& path) override {
    return create_large_file(path);
  }
  std::unique_ptr<WritableFile> append_to(const std::string& path) override {
    return std::make_unique<PosixWritableFile>(path, O_APPEND);
  }
  std::unique_ptr<ReadableFile> open(const std::string& path) override {
    return std::make_unique<PosixReadableFile>(path);
  }
  void create_folders(const std::string& path) override {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) throw_io_error("create the folder", path, error.value());
  }
  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) throw_io_error("rename to", to, errno);
  }
  void remove_all(const std::string& path) override {
    std::error_code error;
    fs::remove_all(path, error);
    if (error) throw_io_error("remove", path, error.value());
  }
  void truncate(const std::string& path, uint64_t size_bytes) override {
    if (::truncate(path.c_str(), static_cast<off_t>(size_bytes)) != 0)
      throw_io_error("truncate", path, errno);
  }
  void sync_folder(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) throw_io_error("sync the folder", path, errno);
    const int code = ::fsync(fd) != 0 ? errno : 0;
    ::close(fd);
    if (code != 0) throw_io_error("sync the folder", path, code);
  }
  bool exists(const std::string& path) override {
    std::error_code error;
    return fs::exists(path, error);
  }
  bool is_folder(const std::string& path) override {
    std::error_code error;
    return fs::is_directory(path, error);
  }
  std::vector<std::string> list(const std::string& path) override {
    std::error_code error;
    std::vector<std::string> names;
    for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error))
      names.push_back(it->path().filename().string());
    if (error) throw_io_error("list", path, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace

void throw_io_error(const char* what, const std::string& path, int code) {
  const char* hint = code == ENOSPC ? "free some space on that disk" : "";
  throw IoError(fmt::format("cannot {} '{}': {}", what, path, std::strerror(code)), code, hint);
}

std::unique_ptr<WritableFile> Env::create_large(const std::string& path) {
  return create(path);
}

std::unique_ptr<ScratchFile> Env::create_scratch(const std::string& folder) {
  return open_scratch_file(folder);
}

std::string Env::read_text(const std::string& path, uint64_t max_bytes) {
  const auto file = open(path);
  check(file->size_bytes() <= max_bytes, "'{}' has {} bytes, expected at most {}", path, file->size_bytes(),
        max_bytes);
  std::string text(file->size_bytes(), '\0');
  file->read(0, text.data(), text.size());
  return text;
}

void Env::write_atomically(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  try {
    const auto file = create(temporary);
    file->append(text);
    file->sync();
    file->close();
    rename(temporary, path);
  } catch (const IoError&) {
    try {
      remove_all(temporary);
    } catch (const IoError&) {  // the error that brought us here is the one worth reporting
    }
    throw;
  }
  sync_folder(parent_folder(path));
}

void Env::replace(const std::string& path, std::string_view text) {
  const std::string temporary = path + ".tmp";
  const auto file = create(temporary);
  file->append(text);
  file->close();
  rename(temporary, path);
}

Env& system_env() {
  static SystemEnv env;  // has no state
  return env;
}

std::string join_path(std::string_view folder, std::string_view name) {
  return (fs::path(folder) / fs::path(name)).string();
}

std::string parent_folder(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

MappedFile::MappedFile(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw_io_error("read", path, errno);
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    throw_io_error("map", path, EINVAL);
  }
  size_bytes_ = static_cast<uint64_t>(info.st_size);
  if (size_bytes_ > 0) {
    void* address = ::mmap(nullptr, size_bytes_, PROT_READ, MAP_SHARED, fd, 0);
    const int code = errno;
    ::close(fd);
    if (address == MAP_FAILED) throw_io_error("map", path, code);
    data_ = static_cast<const std::byte*>(address);
  } else {
    ::close(fd);
  }
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_bytes_);
}

}  // namespace athanor::base

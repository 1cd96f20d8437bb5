// Files behind an Env, so that tests can fill the disk, lose unsynced writes or fail the n-th call.
//
//   Env& env = system_env();
//   env.write_atomically("report.json", text);
//   std::string text = env.read_text("config.toml", 1 << 20);
//
// Every failure throws IoError naming the path. Thread rule: an Env may be used by many threads, a
// WritableFile or ReadableFile by one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "athanor/base/scratch_file.h"

namespace athanor::base {

class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual void append(const void* data, size_t size_bytes) = 0;
  void append(std::string_view text) { append(text.data(), text.size()); }
  virtual void flush() = 0;  // hands buffered bytes to the system; they survive a kill of the process
  virtual void sync() = 0;   // fsync: they survive a power cut
  virtual void close() = 0;  // flush and close; the destructor closes too but cannot report
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  virtual uint64_t size_bytes() const = 0;
  // Reads exactly size_bytes at offset; a shorter file is an IoError.
  virtual void read(uint64_t offset, void* data, size_t size_bytes) const = 0;
};

class Env {
 public:
  virtual ~Env() = default;
  virtual std::unique_ptr<WritableFile> create(const std::string& path) = 0;  // truncates
  // For a file of many megabytes that is not read again soon (large_file.h); by default the same as create().
  virtual std::unique_ptr<WritableFile> create_large(const std::string& path);
  virtual std::unique_ptr<WritableFile> append_to(const std::string& path) = 0;
  virtual std::unique_ptr<ReadableFile> open(const std::string& path) = 0;
  virtual std::unique_ptr<ScratchFile> create_scratch(
      const std::string& folder);  // by default open_scratch_file() of scratch_file.h
  virtual void create_folders(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;
  virtual void remove_all(const std::string& path) = 0;
  virtual void truncate(const std::string& path, uint64_t size_bytes) = 0;
  virtual void sync_folder(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  virtual bool is_folder(const std::string& path) = 0;
  virtual std::vector<std::string> list(const std::string& path) = 0;  // names, sorted, without . and ..

  // The whole file; refuses one above max_bytes before it allocates.
  std::string read_text(const std::string& path, uint64_t max_bytes = uint64_t{1} << 32);
  // Temporary file, fsync, rename, fsync of the folder. If it fails, the old file is untouched and no temporary file is
  // left.
  void write_atomically(const std::string& path, std::string_view text);
  // The same without waiting for the disk: a power cut may lose it. A reader finds either the old file or the new one.
  void replace(const std::string& path, std::string_view text);
};

Env& system_env();

// "cannot WHAT 'PATH': the system's reason", as IoError.
[[noreturn]] void throw_io_error(const char* what, const std::string& path, int code);

std::string join_path(std::string_view folder, std::string_view name);  // name alone if it is absolute
std::string parent_folder(const std::string& path);                     // "." if there is none

// A file mapped read-only for as long as the object lives. If somebody truncates the file meanwhile, reading raises
// SIGBUS: use it only for files that are replaced by rename.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const std::byte* data() const { return data_; }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  const std::byte* data_ = nullptr;
  uint64_t size_bytes_ = 0;
};

}  // namespace athanor::base

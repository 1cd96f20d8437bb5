// An Env for files that are appended to and never hold half a record: what is written between two flushes arrives
// completely or not at all, even if the disk is full for a while.
//
//   WholeRecords files(system_env());
//   auto file = files.append_to("metrics.jsonl");
//   file->append(line);
//   file->flush();          // IoError: the file has no part of the line, or loses it before the next line is written
//
// A flush that fails truncates the file to its length before the flush; if that fails too, the next flush truncates
// first. So a writer may go on after an IoError, and loses only the failed record. All other calls go to the underlying
// Env, which must outlive this object. Thread rule: as for any Env.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/base/file.h"

namespace athanor::observe {

class WholeRecords final : public Env {
 public:
  explicit WholeRecords(Env& env) : env_(env) {}

  std::unique_ptr<WritableFile> create(const std::string& path) override;
  std::unique_ptr<WritableFile> append_to(const std::string& path) override;
  std::unique_ptr<ReadableFile> open(const std::string& path) override { return env_.open(path); }
  void create_folders(const std::string& path) override { env_.create_folders(path); }
  void rename(const std::string& from, const std::string& to) override { env_.rename(from, to); }
  void remove_all(const std::string& path) override { env_.remove_all(path); }
  void truncate(const std::string& path, uint64_t size_bytes) override { env_.truncate(path, size_bytes); }
  void sync_folder(const std::string& path) override { env_.sync_folder(path); }
  bool exists(const std::string& path) override { return env_.exists(path); }
  bool is_folder(const std::string& path) override { return env_.is_folder(path); }
  std::vector<std::string> list(const std::string& path) override { return env_.list(path); }

 private:
  Env& env_;
};

}  // namespace athanor::observe

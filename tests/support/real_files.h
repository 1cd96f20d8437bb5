// The real files behind an Env, to be overridden where a test wants another disk. It syncs no folder, so that a test may
// write thousands of files. Thread rule: that of Env.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "athanor/base/file.h"

namespace athanor::tests {

class RealFiles : public Env {
 public:
  std::unique_ptr<WritableFile> create(const std::string& path) override { return system_env().create(path); }
  std::unique_ptr<WritableFile> append_to(const std::string& path) override {
    return system_env().append_to(path);
  }
  std::unique_ptr<ReadableFile> open(const std::string& path) override { return system_env().open(path); }
  void create_folders(const std::string& path) override { system_env().create_folders(path); }
  void rename(const std::string& from, const std::string& to) override { system_env().rename(from, to); }
  void remove_all(const std::string& path) override { system_env().remove_all(path); }
  void truncate(const std::string& path, uint64_t size) override { system_env().truncate(path, size); }
  void sync_folder(const std::string&) override {}
  bool exists(const std::string& path) override { return system_env().exists(path); }
  bool is_folder(const std::string& path) override { return system_env().is_folder(path); }
  std::vector<std::string> list(const std::string& path) override { return system_env().list(path); }
};

}  // namespace athanor::tests

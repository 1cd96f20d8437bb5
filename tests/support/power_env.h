// An Env for power cuts: what was not synced is lost. Bytes of a file survive up to its last sync(), a file's
// or folder's name only once its folder was synced, a rename too. cut() makes the disk look as it would after
// one. The power may fail at the n-th call by itself. One thread.
#pragma once

#include <cerrno>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/base/file.h"

namespace athanor {

class PowerEnv : public Env {
 public:
  explicit PowerEnv(int64_t fail_at) : fail_at_(fail_at) {}
  bool failed() const { return calls_ > fail_at_; }

  void cut() {
    for (auto rename = renames_.rbegin(); rename != renames_.rend(); ++rename) {
      std::filesystem::rename(rename->to, rename->from);
      moved(rename->to, rename->from);
    }
    for (const auto& [path, size] : synced_bytes_)
      if (std::filesystem::exists(path)) std::filesystem::resize_file(path, size);
    for (const auto& [folder, names] : unsynced_names_)
      for (const std::string& name : names) std::filesystem::remove_all(folder + "/" + name);
  }

  std::unique_ptr<WritableFile> create(const std::string& path) override {
    step();
    synced_bytes_[path] = 0;
    note(path);
    return std::make_unique<File>(*this, path);
  }
  std::unique_ptr<WritableFile> append_to(const std::string&) override { throw Error("not used"); }
  std::unique_ptr<ReadableFile> open(const std::string& path) override { return system_env().open(path); }
  void create_folders(const std::string& path) override {
    step();
    if (!exists(path)) note(path);
    system_env().create_folders(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    step();
    system_env().rename(from, to);
    moved(from, to);
    renames_.push_back({from, to});
  }
  void remove_all(const std::string& path) override { step(), system_env().remove_all(path); }
  void truncate(const std::string&, uint64_t) override { throw Error("not used"); }
  void sync_folder(const std::string& path) override {
    step();
    unsynced_names_.erase(path);
    std::erase_if(renames_, [&](const Rename& rename) { return parent_folder(rename.to) == path; });
  }
  bool exists(const std::string& path) override { return system_env().exists(path); }
  bool is_folder(const std::string& path) override { return system_env().is_folder(path); }
  std::vector<std::string> list(const std::string& path) override { return system_env().list(path); }

 private:
  struct Rename {
    std::string from, to;
  };
  class File : public WritableFile {
   public:
    File(PowerEnv& env, std::string path)
        : env_(env), path_(std::move(path)), file_(system_env().create(path_)) {}
    void append(const void* data, size_t size_bytes) override {
      env_.step();
      file_->append(data, size_bytes);
      size_ += size_bytes;
    }
    void flush() override { env_.step(), file_->flush(); }
    void sync() override {
      env_.step();
      file_->flush();
      env_.synced_bytes_[path_] = size_;
    }
    void close() override { env_.step(), file_->close(); }

   private:
    PowerEnv& env_;
    std::string path_;
    std::unique_ptr<WritableFile> file_;
    uint64_t size_ = 0;
  };

  void step() {
    if (calls_++ >= fail_at_) throw IoError("power cut", EIO);
  }
  void note(const std::string& path) {
    unsynced_names_[parent_folder(path)].push_back(std::filesystem::path(path).filename().string());
  }
  // Files and folders below a folder that was renamed have new paths.
  void moved(const std::string& from, const std::string& to) {
    const auto carry = [&](auto& map) {
      auto old = std::move(map);
      map.clear();
      for (auto& [path, value] : old)
        map[path == from || path.rfind(from + "/", 0) == 0 ? to + path.substr(from.size()) : path] =
            std::move(value);
    };
    carry(synced_bytes_);
    carry(unsynced_names_);
    for (auto& [folder, names] : unsynced_names_)
      if (folder == parent_folder(from))
        for (std::string& name : names)
          if (folder + "/" + name == from) name = std::filesystem::path(to).filename().string();
  }

  int64_t fail_at_, calls_ = 0;
  std::map<std::string, uint64_t> synced_bytes_;
  std::map<std::string, std::vector<std::string>> unsynced_names_;
  std::vector<Rename> renames_;
};

}  // namespace athanor

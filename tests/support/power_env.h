// An Env for kills and power cuts: from one file operation on nothing reaches the disk any more. What a kill leaves
// is what had been handed to the system. After a power cut, cut(), what was not synced is lost, too: bytes of a file
// survive up to its last sync(), a file's or folder's name and a rename only once the folder was synced. (Removing
// and shortening count as safe at once.)
//
//   PowerEnv whole(root);
//   ... a run ...                                    // whole.operations() are the points where it can be killed
//   PowerEnv env(root, whole.operations()[17]);      // or PowerEnv env(root, 17): the 18th, whatever it is
//   ... the same run: that operation and all after it are IoErrors ...
//   env.cut();                                       // once nobody uses it any more; without it: a kill
//
// An operation is a call that changes the disk. It is told by its name ("sync metrics.jsonl", paths relative to the
// root, digits that differ from run to run as *) and its number among those of one name, so it is found again although threads take turns
// otherwise. Thread rule: safe from any thread, a file from one at a time; cut() alone.
#pragma once

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "athanor/base/error.h"
#include "athanor/base/file.h"

namespace athanor::tests {

struct FileOperation {
  std::string name;
  int64_t number = 0;
  bool operator==(const FileOperation&) const = default;
};
inline void PrintTo(const FileOperation& operation, std::ostream* out) {
  *out << operation.name << " #" << operation.number;
}

class PowerEnv : public Env {
 public:
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  explicit PowerEnv(std::string root, int64_t fail_at = kNever) : root_(std::move(root)), fail_at_(fail_at) {}
  PowerEnv(std::string root, FileOperation fail_at)
      : root_(std::move(root)), fail_at_operation_(std::move(fail_at)) {}

  bool failed() const {
    const std::lock_guard lock(mutex_);
    return failed_;
  }
  std::vector<FileOperation> operations() const {  // that have been done
    const std::lock_guard lock(mutex_);
    return done_;
  }
  // How much of a file would be there after a power cut now.
  uint64_t safe_bytes(const std::string& path) const {
    const std::lock_guard lock(mutex_);
    const auto found = safe_bytes_.find(path);
    return found != safe_bytes_.end() ? found->second : size_of_file(path);
  }
  // Called before each operation, by the thread that does it; it may ask this Env.
  std::function<void(const FileOperation& operation)> before = {};

  void cut() {
    for (auto rename = renames_.rbegin(); rename != renames_.rend(); ++rename) {
      std::filesystem::rename(rename->to, rename->from);
      moved(rename->to, rename->from);
      if (!rename->replaced) continue;
      const auto file = system_env().create(rename->to);
      file->append(*rename->replaced);
      file->close();
    }
    for (const auto& [path, size] : safe_bytes_)
      if (std::filesystem::exists(path)) std::filesystem::resize_file(path, size);
    for (const auto& [folder, names] : unsafe_names_)
      for (const std::string& name : names) std::filesystem::remove_all(folder + "/" + name);
  }

  std::unique_ptr<WritableFile> create(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    step("create", path);
    if (!exists(path)) note(path);
    safe_bytes_[path] = 0;
    return std::make_unique<File>(*this, path, system_env().create(path), 0);
  }
  std::unique_ptr<WritableFile> append_to(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    const bool is_new = !exists(path);
    if (is_new)
      step("create", path);
    else if (failed_)
      throw_off();
    const uint64_t size = is_new ? 0 : size_of_file(path);
    if (is_new) note(path);
    safe_bytes_.emplace(path, size);
    return std::make_unique<File>(*this, path, system_env().append_to(path), size);
  }
  std::unique_ptr<ReadableFile> open(const std::string& path) override { return system_env().open(path); }
  void create_folders(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    if (exists(path)) return;
    step("create_folders", path);
    for (std::string folder = path; !exists(folder); folder = parent_folder(folder)) note(folder);
    system_env().create_folders(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    const std::lock_guard lock(mutex_);
    step("rename", from + " " + to);
    std::optional<std::string> replaced;
    if (exists(to) && !is_folder(to)) replaced = system_env().read_text(to);
    safe_bytes_.erase(to);
    system_env().rename(from, to);
    moved(from, to);
    renames_.push_back({from, to, std::move(replaced)});
  }
  void remove_all(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    if (!exists(path)) return;
    step("remove_all", path);
    system_env().remove_all(path);
    const auto is_gone = [&](const std::string& other) { return is_in(other, path); };
    std::erase_if(safe_bytes_, [&](const auto& file) { return is_gone(file.first); });
    std::erase_if(unsafe_names_, [&](const auto& folder) { return is_gone(folder.first); });
    std::erase_if(renames_, [&](const Rename& rename) { return is_gone(rename.to); });
  }
  void truncate(const std::string& path, uint64_t size_bytes) override {
    const std::lock_guard lock(mutex_);
    step("truncate", path);
    system_env().truncate(path, size_bytes);
    const auto found = safe_bytes_.find(path);
    if (found != safe_bytes_.end()) found->second = std::min(found->second, size_bytes);
  }
  void sync_folder(const std::string& path) override {
    const std::lock_guard lock(mutex_);
    step("sync_folder", path);
    unsafe_names_.erase(path);
    std::erase_if(renames_, [&](const Rename& rename) { return parent_folder(rename.to) == path; });
  }
  bool exists(const std::string& path) override { return system_env().exists(path); }
  bool is_folder(const std::string& path) override { return system_env().is_folder(path); }
  std::vector<std::string> list(const std::string& path) override { return system_env().list(path); }

 private:
  struct Rename {
    std::string from, to;
    std::optional<std::string> replaced;  // the file that was there
  };
  // What is appended stays in the process until it is handed to the system.
  class File : public WritableFile {
   public:
    File(PowerEnv& env, std::string path, std::unique_ptr<WritableFile> file, uint64_t size_bytes)
        : env_(env), path_(std::move(path)), file_(std::move(file)), size_bytes_(size_bytes) {}
    ~File() override {
      try {
        flush();
      } catch (const IoError&) {  // as those of the system
      }
    }
    void append(const void* data, size_t size_bytes) override {
      waiting_.append(static_cast<const char*>(data), size_bytes);
    }
    void flush() override {
      const std::lock_guard lock(env_.mutex_);
      hand_over();
    }
    void sync() override {
      const std::lock_guard lock(env_.mutex_);
      hand_over();
      env_.step("sync", path_);
      env_.safe_bytes_[path_] = size_bytes_;
    }
    void close() override { flush(); }

   private:
    void hand_over() {
      const std::string bytes = std::exchange(waiting_, "");
      if (bytes.empty()) return;
      const bool was_off = env_.failed_;
      try {
        env_.step("write", path_);
      } catch (const IoError&) {
        if (!was_off) write({bytes.data(), bytes.size() / 2});  // killed in the middle of it
        throw;
      }
      write(bytes);
      size_bytes_ += bytes.size();
    }
    void write(std::string_view bytes) {
      file_->append(bytes);
      file_->flush();
    }

    PowerEnv& env_;
    std::string path_, waiting_;
    std::unique_ptr<WritableFile> file_;
    uint64_t size_bytes_;
  };

  [[noreturn]] static void throw_off() { throw IoError("power cut", EIO); }
  void step(const char* what, const std::string& paths) {
    if (failed_) throw_off();
    std::string name = std::string(what) + " " + paths;
    for (const std::string_view of_process : {".tmp-", "tfevents.", ".one_folder_"})  // a number follows
      for (size_t at = 0; (at = name.find(of_process, at)) != std::string::npos;) {
        at += of_process.size();
        const size_t end = std::min(name.find_first_of("/ ", at), name.size());
        if (end > at) name.replace(at, end - at, "*");
      }
    for (size_t at = 0; (at = name.find(root_ + "/", at)) != std::string::npos;)
      name.erase(at, root_.size() + 1);
    const FileOperation operation{name, counts_[name]++};
    if (before) before(operation);
    failed_ = fail_at_operation_ ? operation == *fail_at_operation_ : std::ssize(done_) >= fail_at_;
    if (failed_) throw_off();
    done_.push_back(operation);
  }
  static uint64_t size_of_file(const std::string& path) {
    return std::filesystem::exists(path) ? std::filesystem::file_size(path) : 0;
  }
  static bool is_in(const std::string& path, const std::string& folder) {
    return path == folder || path.starts_with(folder + "/");
  }
  void note(const std::string& path) {
    unsafe_names_[parent_folder(path)].push_back(std::filesystem::path(path).filename().string());
  }
  // Files and folders below a folder that was renamed have new paths.
  void moved(const std::string& from, const std::string& to) {
    const auto carry = [&](auto& map) {
      auto old = std::move(map);
      map.clear();
      for (auto& [path, value] : old)
        map[is_in(path, from) ? to + path.substr(from.size()) : path] = std::move(value);
    };
    carry(safe_bytes_);
    carry(unsafe_names_);
    for (auto& [folder, names] : unsafe_names_)
      if (folder == parent_folder(from))
        for (std::string& name : names)
          if (folder + "/" + name == from) name = std::filesystem::path(to).filename().string();
  }

  const std::string root_;
  int64_t fail_at_ = kNever;
  std::optional<FileOperation> fail_at_operation_;
  mutable std::recursive_mutex mutex_;
  bool failed_ = false;
  std::vector<FileOperation> done_;
  std::map<std::string, int64_t> counts_;
  std::map<std::string, uint64_t> safe_bytes_;
  std::map<std::string, std::vector<std::string>> unsafe_names_;
  std::vector<Rename> renames_;
};

}  // namespace athanor::tests

#include "athanor/observe/whole_records.h"

#include <utility>

#include "athanor/base/error.h"

namespace athanor::observe {
namespace {

class RecordFile final : public WritableFile {
 public:
  RecordFile(Env& env, std::string path, std::unique_ptr<WritableFile> file, uint64_t size_bytes)
      : env_(env), path_(std::move(path)), file_(std::move(file)), size_bytes_(size_bytes) {}
  ~RecordFile() override {
    try {
      flush();
    } catch (const IoError&) {  // a destructor cannot report; whoever needs to know calls close()
    }
  }
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  void append(const void* data, size_t size_bytes) override {
    record_.append(static_cast<const char*>(data), size_bytes);
  }
  void flush() override {
    const std::string record = std::exchange(record_, "");
    if (record.empty()) return;
    if (torn_) cut_back();
    try {
      file_->append(record.data(), record.size());
      file_->flush();
    } catch (const IoError&) {
      torn_ = true;  // some of it may be there, or wait inside file_
      try {
        cut_back();
      } catch (const IoError&) {  // the error that brought us here is the one worth reporting
      }
      throw;
    }
    size_bytes_ += record.size();
  }
  void sync() override {
    flush();
    if (torn_) cut_back();
    file_->sync();
  }
  void close() override {
    flush();
    if (file_ != nullptr) file_->close();
  }

 private:
  void cut_back() {
    file_.reset();
    if (env_.exists(path_)) {
      env_.truncate(path_, size_bytes_);
    } else {
      size_bytes_ = 0;
    }
    file_ = env_.append_to(path_);
    torn_ = false;
  }

  Env& env_;
  const std::string path_;
  std::unique_ptr<WritableFile> file_;  // writes at the file's end, wherever that is by then
  uint64_t size_bytes_;                 // of whole records
  std::string record_;
  bool torn_ = false;
};

}  // namespace

std::unique_ptr<WritableFile> WholeRecords::append_to(const std::string& path) {
  const uint64_t size_bytes = env_.exists(path) ? env_.open(path)->size_bytes() : 0;
  return std::make_unique<RecordFile>(env_, path, env_.append_to(path), size_bytes);
}

std::unique_ptr<WritableFile> WholeRecords::create(const std::string& path) {
  env_.create(path)->close();
  return append_to(path);
}

}  // namespace athanor::observe

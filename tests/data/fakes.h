// What the tests of this folder share: a temporary folder, a tokenizer of single bytes, a disk that fills up.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <zlib.h>
#include <zstd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "athanor/base/check.h"
#include "athanor/base/file.h"
#include "athanor/text/tokenizer.h"

namespace athanor::tests {

class FolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = (std::filesystem::temp_directory_path() / "athanor_data_test_XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, std::string_view text) {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    // File systems write a file that replaces its own content to the disk at once; thousands of those take
    // long.
    std::filesystem::remove(path(name));
    const auto file = env_.create(path(name));
    file->append(text);
    file->close();
    return path(name);
  }
  std::string folder_;
  Env& env_ = system_env();
};

// The message of the Failure that body throws, "" where it throws none.
inline std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "";
}

inline std::string gzip(std::string_view text) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

// Every byte is a token of its own; id 256 ends a document. `salt` makes another tokenizer.json.
class ByteTokenizer : public Tokenizer {
 public:
  explicit ByteTokenizer(const std::string& salt = "")
      : json_("{\"salt\":\"" + salt +
              "\",\"added_tokens\":[{\"id\":256,\"content\":\"<|endoftext|>\",\"special\":true}],"
              "\"model\":{\"vocab\":{}}}") {
    files_[kTokenizerFile] = json_;
    special_.end = 256;
  }
  std::vector<int32_t> encode(std::string_view text) const override { return encode_ordinary(text); }
  std::vector<int32_t> encode_ordinary(std::string_view text) const override {
    std::vector<int32_t> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  text::Encoding encode_with_offsets(std::string_view text, text::EncodeOptions) const override {
    text::Encoding encoding{.ids = encode_ordinary(text)};
    for (uint32_t i = 0; i < text.size(); ++i) encoding.ranges.push_back({i, i + 1});
    return encoding;
  }
  text::Encoding with_special_tokens(const text::Encoding& first,
                                     const std::optional<text::Encoding>&) const override {
    return first;
  }
  std::vector<std::string> warnings() const override { return {}; }
  std::vector<int32_t> encode(std::string_view text, std::span<const ByteSpan>) const override {
    return encode_ordinary(text);
  }
  std::string decode(std::span<const int32_t> ids) const override {
    std::string text;
    for (const int32_t id : ids) text += token_of(id);
    return text;
  }
  int32_t vocab_size() const override { return 257; }
  std::optional<int32_t> id_of(std::string_view token) const override {
    if (token == "<|endoftext|>") return 256;
    if (token.size() == 1) return static_cast<unsigned char>(token[0]);
    return std::nullopt;
  }
  std::string token_of(int32_t id) const override {
    check(id >= 0 && id <= 256, "no token {}", id);
    return id == 256 ? "<|endoftext|>" : std::string(1, static_cast<char>(id));
  }
  const std::string& json() const override { return json_; }
  const TokenizerFiles& files() const override { return files_; }
  const SpecialTokens& special_tokens() const override { return special_; }

 private:
  std::string json_;
  TokenizerFiles files_;
  SpecialTokens special_;
};

// The system's files, until `capacity_bytes` have been written: then every write is "no space left".
class FullDiskEnv : public Env {
 public:
  explicit FullDiskEnv(int64_t capacity_bytes) : left_(capacity_bytes) {}
  std::unique_ptr<WritableFile> create(const std::string& path) override {
    return std::make_unique<File>(*this, real_.create(path));
  }
  std::unique_ptr<WritableFile> append_to(const std::string& path) override {
    return std::make_unique<File>(*this, real_.append_to(path));
  }
  std::unique_ptr<ReadableFile> open(const std::string& path) override { return real_.open(path); }
  void create_folders(const std::string& path) override { real_.create_folders(path); }
  void rename(const std::string& from, const std::string& to) override { real_.rename(from, to); }
  void remove_all(const std::string& path) override { real_.remove_all(path); }
  void truncate(const std::string& path, uint64_t size) override { real_.truncate(path, size); }
  void sync_folder(const std::string& path) override { real_.sync_folder(path); }
  bool exists(const std::string& path) override { return real_.exists(path); }
  bool is_folder(const std::string& path) override { return real_.is_folder(path); }
  std::vector<std::string> list(const std::string& path) override { return real_.list(path); }
  int64_t left_bytes() const { return left_; }

 private:
  class File : public WritableFile {
   public:
    File(FullDiskEnv& env, std::unique_ptr<WritableFile> file) : env_(env), file_(std::move(file)) {}
    void append(const void* data, size_t size_bytes) override {
      env_.left_ -= static_cast<int64_t>(size_bytes);
      if (env_.left_ < 0) throw IoError("cannot write: no space left on the disk", ENOSPC);
      file_->append(data, size_bytes);
    }
    void flush() override { file_->flush(); }
    void sync() override { file_->sync(); }
    void close() override { file_->close(); }

   private:
    FullDiskEnv& env_;
    std::unique_ptr<WritableFile> file_;
  };
  Env& real_ = system_env();
  std::atomic<int64_t> left_;
};

}  // namespace athanor::tests

#include "athanor/data/spool/captured_input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/documents/byte_source.h"
#include "athanor/documents/file_format.h"

namespace athanor::data::spool {
namespace {

constexpr const char* kPrefix = "input-";
constexpr int64_t kFileBytes = int64_t{64} << 20, kAtOnce = int64_t{1} << 20, kMostAhead = int64_t{8} << 20;
constexpr size_t kLongestRecord = size_t{1} << 30;

class TextBytesSource final : public ByteSource {
 public:
  explicit TextBytesSource(std::string_view text) : left_(text) {}
  size_t read(char* out, size_t max_bytes) override {
    const size_t count = std::min(max_bytes, left_.size());
    std::memcpy(out, left_.data(), count);
    left_.remove_prefix(count);
    read_ += count;
    return count;
  }
  uint64_t raw_bytes() const override { return read_; }

 private:
  std::string_view left_;
  uint64_t read_ = 0;
};

std::string path_of(const std::string& folder, int64_t first_byte) {
  return join_path(folder, fmt::format("{}{:012}", kPrefix, first_byte));
}

void write_all(int file, int64_t offset, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t wrote = ::pwrite(file, text.data(), text.size(), offset);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) throw_io_error("write", path, errno);
    offset += wrote;
    text.remove_prefix(static_cast<size_t>(wrote));
  }
}

}  // namespace

CapturedInput::CapturedInput(Env& env, std::string folder, int fd, ReadOptions how, int64_t first_byte)
    : env_(env), folder_(std::move(folder)), fd_(fd), how_(std::move(how)), at_(first_byte) {
  for (const std::string& name : env_.list(folder_)) {
    int64_t first = 0;
    const std::string_view digits =
        std::string_view(name).substr(std::min(name.size(), std::strlen(kPrefix)));
    if (!name.starts_with(kPrefix) ||
        std::from_chars(digits.data(), digits.data() + digits.size(), first).ptr !=
            digits.data() + digits.size())
      continue;
    files_.push_back(first);
  }
  std::ranges::sort(files_);
  check(files_.empty() || files_.front() <= at_,
        "'{}': what came before byte {} of standard input is gone, expected it from byte {} on", folder_,
        files_.empty() ? 0 : files_.front(), at_);
  if (files_.empty()) files_.push_back(at_);
  open_newest();
  // What earlier files hold beyond the first byte of the next one stands in the next one, too.
  for (size_t i = 0; i < files_.size(); ++i) {
    const bool newest = i + 1 == files_.size();
    const int64_t end = newest ? files_[i] + size_ : files_[i + 1],
                  first = std::max(at_ + std::ssize(unread_), files_[i]);
    if (first >= end) continue;
    std::string part(static_cast<size_t>(end - first), '\0');
    env_.open(path_of(folder_, files_[i]))
        ->read(static_cast<uint64_t>(first - files_[i]), part.data(), part.size());
    unread_ += part;
  }
}

CapturedInput::~CapturedInput() {
  if (file_ >= 0) ::close(file_);
}

void CapturedInput::open_newest() {
  if (file_ >= 0) ::close(file_);
  const std::string path = path_of(folder_, files_.back());
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  struct stat status {};
  if (file_ < 0 || ::fstat(file_, &status) != 0) throw_io_error("open", path, errno);
  size_ = status.st_size;
}

// A new file that begins with the first byte of which no record is made.
void CapturedInput::begin_file() {
  const std::string path = path_of(folder_, at_);
  env_.replace(path, unread_);
  files_.push_back(at_);
  open_newest();
}

int64_t CapturedInput::move_some() {
  const std::string path = path_of(folder_, files_.back());
  struct stat status {};
  if (::fstat(fd_, &status) != 0) throw_io_error("read", "standard input", errno);
  std::string buffer;
  if (S_ISREG(status.st_mode)) {  // its place is that of the bytes that are captured
    buffer.resize(static_cast<size_t>(kAtOnce));
    const ssize_t got = ::pread(fd_, buffer.data(), buffer.size(), files_.back() + size_);
    if (got < 0) throw_io_error("read", "standard input", errno);
    buffer.resize(static_cast<size_t>(got));
    write_all(file_, size_, buffer, path);
  } else {
    loff_t offset = size_;
    const ssize_t moved = ::splice(fd_, nullptr, file_, &offset, static_cast<size_t>(kAtOnce),
                                   SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
    if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return -1;
    if (moved < 0 && errno != EINVAL) throw_io_error("write", path, errno);
    if (moved == 0) return 0;
    if (moved > 0) {
      buffer.resize(static_cast<size_t>(moved));
      if (::pread(file_, buffer.data(), buffer.size(), size_) != moved) throw_io_error("read", path, errno);
    } else {  // neither a pipe nor a socket
      pollfd input{fd_, POLLIN, 0};
      if (::poll(&input, 1, 0) == 0) return -1;
      buffer.resize(static_cast<size_t>(kAtOnce));
      const ssize_t got = ::read(fd_, buffer.data(), buffer.size());
      if (got < 0) throw_io_error("read", "standard input", errno);
      buffer.resize(static_cast<size_t>(got));
      write_all(file_, size_, buffer, path);
    }
  }
  size_ += std::ssize(buffer);
  unread_ += buffer;
  return std::ssize(buffer);
}

bool CapturedInput::capture() {
  // Beyond what is ahead already only where no record is whole in it.
  const int64_t most = searched_ < unread_.size() ? kMostAhead : std::ssize(unread_) + kMostAhead;
  while (std::ssize(unread_) < most) {
    const int64_t came = move_some();
    if (came <= 0) return came < 0;
  }
  return true;
}

// By the first bytes of all: what came later may look otherwise.
void CapturedInput::find_out(std::string_view text) {
  if (is_known_) return;
  const std::string path = join_path(folder_, "input.format");
  if (env_.exists(path)) {
    is_json_ = env_.read_text(path, 16) == "jsonl";
    is_known_ = true;
    return;
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return;
  if (text[first] == '[')
    throw ConfigError(
        "standard input: is a JSON array, which ends nowhere before its end; expected an object per line");
  if (const auto compression = recognize_compression(text); compression != SourceCompression::none)
    throw ConfigError(
        fmt::format("standard input: is compressed with {}, expected JSON lines or text",
                    compression_name(compression)),
        "decompress it before the pipe: zcat, zstdcat, xzcat or bzcat FILE | athanor train ...");
  if (const std::string foreign = foreign_format(text); !foreign.empty())
    throw ConfigError(fmt::format("standard input: is {}, expected JSON lines or text", foreign));
  is_json_ = text[first] == '{';
  is_known_ = true;
  env_.write_atomically(path, is_json_ ? "jsonl" : "text");
}

// Bytes of `text` that are whole records.
size_t CapturedInput::whole_records(std::string_view text) {
  if (has_ended_) return text.size();
  size_t whole = 0;
  while (true) {  // line by line, of those that are not known yet
    const size_t end = text.find('\n', std::max(searched_, whole));
    if (end == std::string_view::npos) break;
    std::string_view line = text.substr(line_, end - line_);
    if (line.ends_with('\r')) line.remove_suffix(1);
    line_ = searched_ = end + 1;
    if (is_json_ || std::ranges::find(how_.separators, line) != how_.separators.end()) whole = end + 1;
  }
  searched_ = text.size();
  return whole;
}

SpoolSource::Got CapturedInput::read(const TakeRecord& take) {
  if (!has_ended_) has_ended_ = !capture();
  find_out(unread_);
  const size_t size = is_known_ ? whole_records(unread_) : 0;
  if (size == 0) {
    check(unread_.size() <= kLongestRecord,
          "standard input: byte {}: a record of more than 1 GiB, expected it to end before", at_);
    return has_ended_ ? Got::end : Got::nothing_yet;
  }
  const std::string piece = unread_.substr(0, size);
  ReadOptions how = how_;
  how.format = is_json_ ? "jsonl" : "text";
  how.standard_input = [&] { return std::make_unique<TextBytesSource>(piece); };
  read_file_documents(env_, {.path = kStandardInput, .relative = "stdin"}, how,
                      [&](std::string_view text, const DocumentPlace& place) {
                        take(text, {.source = at_, .record = place.record},
                             fmt::format("standard input, line {} from byte {} on", place.line, at_));
                      });
  at_ += static_cast<int64_t>(size);
  unread_.erase(0, size);
  line_ -= std::min(line_, size);
  searched_ -= size;
  if (size_ >= kFileBytes) begin_file();
  return Got::records;
}

void CapturedInput::done_until(const SpoolPosition& position) {
  while (files_.size() > 1 && files_[1] <= position.source) {
    env_.remove_all(path_of(folder_, files_.front()));
    files_.erase(files_.begin());
  }
}

}  // namespace athanor::data::spool

#include "athanor/data/spool/spool.h"

#include <chrono>
#include <utility>

#include "athanor/base/check.h"
#include "athanor/base/file_lock.h"
#include "athanor/base/interrupted.h"
#include "athanor/data/spool/captured_input.h"
#include "athanor/data/spool/followed_folder.h"
#include "athanor/data/spool/window_writer.h"
#include "athanor/data/tokenize.h"

namespace athanor::data::spool {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kPatience{50};  // between two looks at a source that had nothing
constexpr size_t kMostOpen = 4;

}  // namespace

Spool::Spool(Env& env, std::shared_ptr<const Tokenizer> tokenizer, SpoolOptions options)
    : env_(env), tokenizer_(std::move(tokenizer)), options_(std::move(options)) {
  options_.shape.tokenizer_hash = tokenizer_hash(*tokenizer_);
  options_.shape.source = fmt::format(
      "{} {}", options_.path, options_.instructions ? options_.instructions->identity() : options_.text_key);
  if (options_.writes || env_.exists(options_.folder))
    open_spool_folder(env_, options_.folder, options_.shape);
  if (options_.writes) thread_ = std::thread([this] { write(); });
}

Spool::~Spool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = 1;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Spool::rethrow() const {
  if (error_ != nullptr) std::rethrow_exception(error_);
}

bool Spool::has(int64_t window) const {
  const std::lock_guard lock(mutex_);
  rethrow();
  if (window >= wanted_) {
    wanted_ = window + 1;
    changed_.notify_all();
  }
  if (!end_) end_ = read_end(env_, options_.folder);
  if (end_) return true;
  while (num_there_ <= window) {
    const auto there = read_window(env_, options_.folder, num_there_);
    if (!there || there->sequences < options_.shape.window) return false;  // the last one waits for end.json
    ++num_there_;
  }
  return true;
}

std::optional<SpoolEnd> Spool::end() const {
  const std::lock_guard lock(mutex_);
  rethrow();
  if (!end_) end_ = read_end(env_, options_.folder);
  return end_;
}

std::shared_ptr<const IndexedDataset> Spool::window(int64_t window) const {
  check(has(window), "'{}': window {} is not there yet", options_.folder, window);
  const std::lock_guard lock(mutex_);
  if (end_ && window >= end_->windows) return nullptr;
  auto& open = open_[window];
  if (open == nullptr) open = std::make_shared<IndexedDataset>(window_prefix(options_.folder, window));
  auto found = open;
  while (open_.size() > kMostOpen)
    open_.erase(open_.begin()->first == window ? std::next(open_.begin()) : open_.begin());
  return found;
}

void Spool::wait_for_readers(int64_t window) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stop_ != 0 || window < wanted_ + kWindowsAhead; });
  if (stop_ != 0) throw Interrupted("the spool is closed");
}

std::unique_ptr<SpoolSource> Spool::open_source(int64_t first) const {
  const ReadOptions how{.text_key = options_.text_key,
                        .separators = document_separators(*tokenizer_),
                        .whole_object = options_.instructions != nullptr};
  if (options_.path == kStandardInput)
    return std::make_unique<CapturedInput>(env_, options_.folder, options_.standard_input, how, first);
  return std::make_unique<FollowedFolder>(env_, options_.folder, options_.path, how, first);
}

void Spool::write_until_end() {
  const FileLock lock(
      join_path(options_.folder, "lock"), [] {}, &stop_);
  WindowWriter writer(env_, options_.folder, options_.shape, options_.vocab_size,
                      [this](int64_t window) { wait_for_readers(window); });
  if (writer.has_ended()) return;
  const auto source = open_source(writer.position().source);
  while (stop_ == 0) {
    const int64_t before = writer.num_windows();
    const auto got =
        source->read([&](std::string_view text, const SpoolPosition& at, const std::string& place) {
          if (stop_ != 0) throw Interrupted("the spool is closed");
          writer.add(options_.instructions ? options_.instructions->encode(text, place)
                                           : MaskedIds{.ids = tokenizer_->encode_document(text),
                                                       .loss_mask = {},
                                                       .text_bytes = static_cast<int64_t>(text.size())},
                     at);
        });
    if (writer.num_windows() > before) source->done_until(writer.committed());
    if (got == SpoolSource::Got::end) return writer.end();
    if (got == SpoolSource::Got::records) continue;
    std::unique_lock waits(mutex_);
    changed_.wait_for(waits, kPatience, [&] { return stop_ != 0; });
  }
}

void Spool::write() {
  try {
    write_until_end();
  } catch (const Interrupted&) {  // the Spool ends
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();
  }
}

}  // namespace athanor::data::spool

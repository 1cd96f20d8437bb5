#include "athanor/corpus/passes/group_pass.h"

#include <fmt/core.h>

#include <cstring>

#include "athanor/base/check.h"
#include "athanor/corpus/dedup/record_sorter.h"
#include "athanor/corpus/passes/limits.h"
#include "athanor/corpus/passes/workers.h"
#include "athanor/documents/byte_source.h"
#include "athanor/documents/zstd_output.h"

namespace athanor::corpus::passes {
namespace {

constexpr const char* kGroupVersion = "group 1";
constexpr int64_t kKeyRanges = 8;  // tasks of the pass, whatever the workers

// Whole records of a stream of bytes.
template <typename Take>
void for_each_record(Env& env, const std::string& path, const Take& take) {
  const auto source = open_bytes(env, path);
  std::vector<KeyRecord> chunk(size_t{8192});
  char* const bytes = reinterpret_cast<char*>(chunk.data());
  size_t filled = 0;
  while (const size_t got = source->read(bytes + filled, chunk.size() * sizeof(KeyRecord) - filled)) {
    filled += got;
    const size_t whole = filled / sizeof(KeyRecord);
    for (size_t i = 0; i < whole; ++i) take(chunk[i]);
    filled -= whole * sizeof(KeyRecord);
    std::memmove(bytes, bytes + whole * sizeof(KeyRecord), filled);
  }
  check(filled == 0, "'{}': ends within a record", path);
}

// Keeps records whose key another one has, too.
class GroupWriter {
 public:
  explicit GroupWriter(ZstdOutput& out) : out_(out) {}

  void take(const KeyRecord& record) {
    const bool shared = any_ && last_.key == record.key;
    if (shared && !written_) write(last_);
    if (shared) write(record);
    written_ = shared;
    any_ = true;
    last_ = record;
  }

 private:
  void write(const KeyRecord& record) {
    out_.append({reinterpret_cast<const char*>(&record), sizeof record});
  }

  ZstdOutput& out_;
  KeyRecord last_;
  bool any_ = false, written_ = false;
};

}  // namespace

void Groups::for_each(Env& env, const std::function<void(const KeyRecord& record)>& take) const {
  for (const std::string& file : files) for_each_record(env, file, take);
}

Groups group_keys(Env& env, const CorpusConfig& config, size_t stage, const Parts& parts,
                  const Annotated& annotated, WorkFolder& work, const Progress& progress) {
  const std::string key = key_of({kGroupVersion, annotated.key, std::to_string(stage)});
  const PassFolder folder = work.pass("groups", key);
  Groups groups{.stage = stage, .key = key};
  std::vector<int64_t> left;
  const auto name = [](int64_t range) { return fmt::format("groups-{}.zst", range); };
  for (int64_t range = 0; range < kKeyRanges; ++range) {
    groups.files.push_back(folder.file(name(range)));
    if (!folder.has(name(range))) left.push_back(range);
  }
  PassProgress state{.what = "comparing", .total_bytes = parts.text_bytes * left.size()};
  run_tasks(
      num_workers(config), static_cast<int64_t>(left.size()),
      [&](int64_t task, const WorkDone& done) {
        const int64_t range = left[static_cast<size_t>(task)];
        RecordSorter sorter(env, folder.file(fmt::format("sort-{}", range)), worker_bytes(config) / 2);
        for (const Part& part : parts.parts) {
          for_each_record(env, annotated.keys(part, stage), [&](const KeyRecord& record) {
            if (static_cast<int64_t>(record.key.high >> 61) == range) sorter.add(record);
          });
          done(part.text_bytes);
        }
        ZstdOutput out(env, groups.files[static_cast<size_t>(range)]);
        GroupWriter writer(out);
        sorter.merge([&](const KeyRecord& record) { writer.take(record); });
        out.finish();
        return std::string();
      },
      [](int64_t, const std::string&) {},
      [&](uint64_t bytes) {
        state.done_bytes += bytes;
        progress(state);
      });
  return groups;
}

}  // namespace athanor::corpus::passes

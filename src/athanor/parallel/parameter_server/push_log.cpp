#include "athanor/parallel/parameter_server/push_log.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <string_view>

#include "athanor/base/check.h"

namespace athanor::parallel::parameter_server {
namespace {

constexpr std::string_view kTitle = "version,worker,step,commit,pulled,staleness\n";

std::string line_of(const PushRecord& r) {
  return fmt::format("{},{},{},{},{},{}\n", r.version, r.push.worker, r.push.step, r.push.commit ? 1 : 0,
                     r.pulled, r.staleness);
}

PushRecord parse_line(std::string_view line, const std::string& path, size_t number) {
  std::array<int64_t, 6> values{};
  const char *at = line.data(), *end = line.data() + line.size();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto [next, error] = std::from_chars(at, end, values[i]);
    const bool last = i + 1 == values.size();
    check(error == std::errc() && (last ? next == end : next != end && *next == ','),
          "{}:{}: got '{}', expected six numbers", path, number, line);
    at = next + 1;
  }
  return {.version = values[0],
          .push = {static_cast<int>(values[1]), values[2], values[3] != 0},
          .pulled = values[4],
          .staleness = values[5]};
}

}  // namespace

PushLog::PushLog(Env& env, const std::string& path, int64_t kept_step) {
  std::string kept(kTitle);
  if (kept_step > 0 && env.exists(path))
    for (const PushRecord& record : read_push_log(env, path)) {
      if (record.push.step > kept_step) break;  // kept_step was a commit: all pushes up to it come first
      kept += line_of(record);
      version_ = record.version;
    }
  env.write_atomically(path, kept);
  file_ = env.append_to(path);
}

void PushLog::write(const PushRecord& record) {
  file_->append(line_of(record));
  version_ = record.version;
  file_->flush();
}

std::vector<PushRecord> read_push_log(Env& env, const std::string& path) {
  const std::string text = env.read_text(path);
  check(text.starts_with(kTitle), "{}: expected the schedule of a parameter server, which starts with '{}'",
        path, kTitle.substr(0, kTitle.size() - 1));
  std::vector<PushRecord> records;
  for (size_t begin = kTitle.size(), end = 0; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    const size_t number = records.size() + 2;
    records.push_back(parse_line(std::string_view(text).substr(begin, end - begin), path, number));
    if (records.size() > 1)
      check(records.back().version == records[records.size() - 2].version + 1,
            "{}:{}: got version {} after {}", path, number, records.back().version,
            records[records.size() - 2].version);
  }
  return records;
}

}  // namespace athanor::parallel::parameter_server

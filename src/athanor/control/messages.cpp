#include "athanor/control/messages.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>

#include "athanor/base/check.h"

namespace athanor::control {
namespace {

using Json = nlohmann::json;

constexpr int kMostRanks = 1 << 20;
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

constexpr std::array<std::string_view, 4> kKinds = {"step", "evaluation", "saving", "tokenizing"};
constexpr std::array<std::string_view, 3> kStatuses = {"finished", "interrupted", "failed"};
constexpr std::array<std::string_view, 6> kCauses = {"none", "config", "error", "not_finite", "io", "peer"};

// Not inside a character of UTF-8.
std::string cut(const std::string& text) {
  if (text.size() <= kTextBytes) return text;
  size_t end = kTextBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

std::string print(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json to_json(const Hello& m) {
  return {{"message", "hello"}, {"version", m.version}, {"job", m.job}, {"worker", m.worker}, {"pid", m.pid}};
}
Json to_json(const Ready& m) {
  return {{"message", "ready"}, {"generation", m.generation}, {"why", cut(m.why)}};
}
Json to_json(const Begun& m) {
  return {{"message", "begun"},
          {"generation", m.generation},
          {"step", m.step},
          {"run_folder", cut(m.run_folder)},
          {"in_place", m.in_place}};
}
Json to_json(const Progress& m) {
  return {{"message", "progress"},
          {"generation", m.generation},
          {"step", m.step},
          {"kind", name_of(m.kind)},
          {"count", m.count}};
}
Json to_json(const Farewell& m) {
  return {{"message", "farewell"},
          {"status", name_of(m.status)},
          {"cause", name_of(m.cause)},
          {"what", cut(m.what)},
          {"hint", cut(m.hint)}};
}
Json to_json(const Meet& m) {
  return {{"message", "meet"}, {"generation", m.generation}, {"rank", m.rank},
          {"size", m.size},    {"why", cut(m.why)},          {"left", m.left}};
}
Json to_json(const Stop& m) {
  return {{"message", "stop"}, {"signal", m.signal}};
}
Json to_json(const End& m) {
  return {{"message", "end"}, {"why", cut(m.why)}};
}

// A message from outside whose fields are checked as they are read.
class Fields {
 public:
  explicit Fields(std::string_view text) {
    json_ = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
    check(json_.is_object(), "control message: got {} bytes that are no JSON object", text.size());
    name_ = this->text("message");
  }
  const std::string& name() const { return name_; }

  [[noreturn]] void refuse(const char* key, const std::string& why) const {
    fail("control message {}: {}: {}", name_.empty() ? "" : "'" + name_.substr(0, 40) + "'", key, why);
  }
  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) refuse(key, "is missing");
    return *found;
  }
  bool flag(const char* key) const {
    const Json& value = at(key);
    if (!value.is_boolean()) refuse(key, fmt::format("got {}, expected true or false", value.type_name()));
    return value.get<bool>();
  }
  int64_t number(const char* key, int64_t least, int64_t most) const {
    return number(key, at(key), least, most);
  }
  int64_t number(const char* key, const Json& value, int64_t least, int64_t most) const {
    if (!value.is_number_integer())
      refuse(key, fmt::format("got {}, expected an integer", value.type_name()));
    const bool too_large = value.is_number_unsigned() && value.get<uint64_t>() > static_cast<uint64_t>(kMost);
    if (too_large || value.get<int64_t>() < least || value.get<int64_t>() > most)
      refuse(key, fmt::format("got {}, expected {} to {}", value.dump(), least, most));
    return value.get<int64_t>();
  }
  std::string text(const char* key, size_t most = kTextBytes) const {
    const Json& value = at(key);
    if (!value.is_string()) refuse(key, fmt::format("got {}, expected a text", value.type_name()));
    std::string got = value.get<std::string>();
    if (got.size() > most) refuse(key, fmt::format("got {} bytes, expected at most {}", got.size(), most));
    return got;
  }
  template <typename Enum, size_t kCount>
  Enum one_of(const char* key, const std::array<std::string_view, kCount>& names) const {
    const std::string got = text(key);
    const auto found = std::find(names.begin(), names.end(), got);
    if (found == names.end()) refuse(key, fmt::format("got '{}', which is not known", got.substr(0, 40)));
    return static_cast<Enum>(found - names.begin());
  }

 private:
  Json json_;
  std::string name_;
};

Hello read_hello(const Fields& fields) {
  Hello hello;
  const int64_t version = fields.number("version", 0, kMost);
  if (version != kProtocolVersion)
    fields.refuse("version",
                  fmt::format("got {}, expected {}: the worker is another program than its launcher", version,
                              kProtocolVersion));
  hello.job = fields.text("job");
  if (hello.job.size() != kJobDigits || hello.job.find_first_not_of("0123456789abcdef") != std::string::npos)
    fields.refuse("job", fmt::format("expected {} hexadecimal digits", kJobDigits));
  hello.worker = static_cast<int>(fields.number("worker", 0, std::numeric_limits<int>::max()));
  hello.pid = fields.number("pid", 1, kMost);
  return hello;
}

Meet read_meet(const Fields& fields) {
  Meet meet;
  meet.generation = fields.number("generation", 0, kMost);
  meet.size = static_cast<int>(fields.number("size", 1, kMostRanks));
  meet.rank = static_cast<int>(fields.number("rank", 0, meet.size - 1));
  meet.why = fields.text("why");
  const Json& left = fields.at("left");
  if (!left.is_array() || left.size() > kMostLeft)
    fields.refuse("left", fmt::format("expected an array of at most {} ranks", kMostLeft));
  for (const Json& rank : left)
    meet.left.push_back(static_cast<int>(fields.number("left", rank, 0, kMostRanks - 1)));
  return meet;
}

}  // namespace

std::string_view name_of(ProgressKind kind) {
  return kKinds.at(static_cast<size_t>(kind));
}
std::string_view name_of(Status status) {
  return kStatuses.at(static_cast<size_t>(status));
}
std::string_view name_of(Cause cause) {
  return kCauses.at(static_cast<size_t>(cause));
}

std::string encode(const WorkerMessage& message) {
  return std::visit([](const auto& m) { return print(to_json(m)); }, message);
}
std::string encode(const AgentMessage& message) {
  return std::visit([](const auto& m) { return print(to_json(m)); }, message);
}

WorkerMessage decode_worker_message(std::string_view text) {
  const Fields fields(text);
  const std::string& name = fields.name();
  if (name == "hello") return read_hello(fields);
  if (name == "ready")
    return Ready{.generation = fields.number("generation", -1, kMost), .why = fields.text("why")};
  if (name == "begun")
    return Begun{.generation = fields.number("generation", 0, kMost),
                 .step = fields.number("step", 0, kMost),
                 .run_folder = fields.text("run_folder"),
                 .in_place = fields.flag("in_place")};
  if (name == "progress")
    return Progress{.generation = fields.number("generation", 0, kMost),
                    .step = fields.number("step", 0, kMost),
                    .kind = fields.one_of<ProgressKind>("kind", kKinds),
                    .count = fields.number("count", 0, kMost)};
  if (name == "farewell")
    return Farewell{.status = fields.one_of<Status>("status", kStatuses),
                    .cause = fields.one_of<Cause>("cause", kCauses),
                    .what = fields.text("what"),
                    .hint = fields.text("hint")};
  fields.refuse("message", "which no worker sends");
}

AgentMessage decode_agent_message(std::string_view text) {
  const Fields fields(text);
  const std::string& name = fields.name();
  if (name == "meet") return read_meet(fields);
  if (name == "stop") return Stop{.signal = static_cast<int>(fields.number("signal", 1, 64))};
  if (name == "end") return End{.why = fields.text("why")};
  fields.refuse("message", "which no agent sends");
}

}  // namespace athanor::control

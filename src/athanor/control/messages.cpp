#include "athanor/control/messages.h"

#include <array>
#include <limits>

#include "athanor/control/message_fields.h"

namespace athanor::control {
namespace {

constexpr std::array<std::string_view, 6> kKinds = {"step",       "evaluation", "saving",
                                                    "tokenizing", "closing",    "other"};
constexpr std::array<std::string_view, 3> kStatuses = {"finished", "interrupted", "failed"};
constexpr std::array<std::string_view, 8> kCauses = {"none", "config", "error",    "not_finite",
                                                     "io",   "peer",   "mismatch", "exhausted"};

Json to_json(const Hello& m) {
  return {{"message", "hello"}, {"version", m.version}, {"job", m.job}, {"worker", m.worker}, {"pid", m.pid}};
}
Json to_json(const Ready& m) {
  return {{"message", "ready"}, {"generation", m.generation}, {"why", cut(m.why)}};
}
Json to_json(const Begun& m) {
  return {{"message", "begun"},     {"generation", m.generation},
          {"step", m.step},         {"run_folder", cut(m.run_folder)},
          {"in_place", m.in_place}, {"work", m.work}};
}
Json to_json(const Saved& m) {
  return {{"message", "saved"},
          {"generation", m.generation},
          {"step", m.step},
          {"path", cut(m.path)},
          {"error", cut(m.error)}};
}
Json to_json(const Progress& m) {
  return {{"message", "progress"},   {"generation", m.generation}, {"step", m.step},
          {"kind", name_of(m.kind)}, {"count", m.count},           {"busy_ns", m.busy_ns},
          {"waited_ns", m.waited_ns}};
}
Json to_json(const Event& m) {
  return {{"message", "event"},
          {"event", cut(m.what.event)},
          {"step", m.what.step},
          {"rank", m.what.rank},
          {"cause", cut(m.what.cause)},
          {"detect_seconds", m.what.detect_seconds},
          {"recover_seconds", m.what.recover_seconds},
          {"lost_steps", m.what.lost_steps}};
}
Json to_json(const Farewell& m) {
  return {{"message", "farewell"},
          {"status", name_of(m.status)},
          {"cause", name_of(m.cause)},
          {"what", cut(m.what)},
          {"hint", cut(m.hint)}};
}
Json to_json(const Persist& m) {
  return {{"message", "persist"},         {"generation", m.generation}, {"step", m.step},
          {"files_bytes", m.files_bytes}, {"path", cut(m.path)},        {"metrics", cut(m.metrics)},
          {"repeated", m.repeated}};
}
Json to_json(const WarmedUp& m) {
  return {{"message", "warmed-up"},
          {"round", m.round},
          {"matrix_gflop_per_s", m.matrix_gflop_per_s},
          {"memory_gb_per_s", m.memory_gb_per_s},
          {"disk_mb_per_s", m.disk_mb_per_s},
          {"refusal", cut(m.refusal)},
          {"hint", cut(m.hint)},
          {"warning", cut(m.warning)}};
}
Json to_json(const Meet& m) {
  return {{"message", "meet"},      {"generation", m.generation},
          {"rank", m.rank},         {"size", m.size},
          {"why", cut(m.why)},      {"left", m.left},
          {"save", m.order.save},   {"rollback_step", m.order.rollback_step},
          {"set", cut(m.order.set)}};
}
Json to_json(const Stop& m) {
  return {{"message", "stop"}, {"signal", m.signal}};
}
Json to_json(const Persisted& m) {
  return {{"message", "persisted"}, {"step", m.step}, {"path", cut(m.path)}, {"error", cut(m.error)}};
}
Json to_json(const End& m) {
  return {{"message", "end"}, {"why", cut(m.why)}};
}
Json to_json(const Welcome& m) {
  return {{"message", "welcome"}, {"taken", m.taken}};
}
Json to_json(const WarmUp& m) {
  return {{"message", "warm-up"}, {"round", m.round}};
}

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
  meet.size = static_cast<int>(fields.number("size", 1, kRanksLimit));
  meet.rank = static_cast<int>(fields.number("rank", 0, meet.size - 1));
  meet.why = fields.text("why");
  const Json& left = fields.at("left");
  if (!left.is_array() || left.size() > kMostLeft)
    fields.refuse("left", fmt::format("expected an array of at most {} ranks", kMostLeft));
  for (const Json& rank : left)
    meet.left.push_back(static_cast<int>(fields.number("left", rank, 0, kRanksLimit - 1)));
  meet.order = {.save = fields.flag("save"),
                .rollback_step = fields.number("rollback_step", -1, kMost),
                .set = fields.text("set")};
  return meet;
}

WorkerMessage read_worker_message(const Fields& fields) {
  const std::string& name = fields.name();
  if (name == "hello") return read_hello(fields);
  if (name == "ready")
    return Ready{.generation = fields.number("generation", -1, kMost), .why = fields.text("why")};
  if (name == "begun")
    return Begun{.generation = fields.number("generation", 0, kMost),
                 .step = fields.number("step", 0, kMost),
                 .run_folder = fields.text("run_folder"),
                 .in_place = fields.flag("in_place"),
                 .work = fields.number("work", -1, kMost)};
  if (name == "saved")
    return Saved{.generation = fields.number("generation", 0, kMost),
                 .step = fields.number("step", 0, kMost),
                 .path = fields.text("path"),
                 .error = fields.text("error")};
  if (name == "persist")
    return Persist{.generation = fields.number("generation", 0, kMost),
                   .step = fields.number("step", 0, kMost),
                   .files_bytes = fields.number("files_bytes", 0, kMost),
                   .path = fields.text("path"),
                   .metrics = fields.text("metrics"),
                   .repeated = fields.flag("repeated")};
  if (name == "progress")
    return Progress{.generation = fields.number("generation", 0, kMost),
                    .step = fields.number("step", 0, kMost),
                    .kind = fields.one_of<ProgressKind>("kind", kKinds),
                    .count = fields.number("count", 0, kMost),
                    .busy_ns = fields.number("busy_ns", 0, kMost),
                    .waited_ns = fields.number("waited_ns", 0, kMost)};
  if (name == "warmed-up")
    return WarmedUp{.round = fields.number("round", 0, kMost),
                    .matrix_gflop_per_s = fields.real("matrix_gflop_per_s"),
                    .memory_gb_per_s = fields.real("memory_gb_per_s"),
                    .disk_mb_per_s = fields.real("disk_mb_per_s"),
                    .refusal = fields.text("refusal"),
                    .hint = fields.text("hint"),
                    .warning = fields.text("warning")};
  if (name == "event")
    return Event{{.event = fields.text("event"),
                  .step = fields.number("step", -1, kMost),
                  .rank = static_cast<int>(fields.number("rank", -1, kRanksLimit - 1)),
                  .cause = fields.text("cause"),
                  .detect_seconds = fields.real("detect_seconds"),
                  .recover_seconds = fields.real("recover_seconds"),
                  .lost_steps = fields.number("lost_steps", -1, kMost)}};
  if (name == "farewell")
    return Farewell{.status = fields.one_of<Status>("status", kStatuses),
                    .cause = fields.one_of<Cause>("cause", kCauses),
                    .what = fields.text("what"),
                    .hint = fields.text("hint")};
  fields.refuse("message", "which no worker sends");
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

std::string encode(const WorkerMessage& message, int64_t number) {
  Json json = std::visit([](const auto& m) { return to_json(m); }, message);
  if (number > 0) json["number"] = number;
  return print(json);
}
std::string encode(const AgentMessage& message) {
  return std::visit([](const auto& m) { return print(to_json(m)); }, message);
}

WorkerMessage decode_worker_message(std::string_view text) {
  return read_worker_message(Fields(text));
}

NumberedMessage decode_numbered_message(std::string_view text) {
  const Fields fields(text);
  return {read_worker_message(fields), fields.has("number") ? fields.number("number", 1, kMost) : 0};
}

AgentMessage decode_agent_message(std::string_view text) {
  const Fields fields(text);
  const std::string& name = fields.name();
  if (name == "meet") return read_meet(fields);
  if (name == "stop") return Stop{.signal = static_cast<int>(fields.number("signal", 1, 64))};
  if (name == "persisted")
    return Persisted{
        .step = fields.number("step", 0, kMost), .path = fields.text("path"), .error = fields.text("error")};
  if (name == "end") return End{.why = fields.text("why")};
  if (name == "welcome") return Welcome{.taken = fields.number("taken", 0, kMost)};
  if (name == "warm-up") return WarmUp{.round = fields.number("round", 0, kMost)};
  fields.refuse("message", "which no agent sends");
}

}  // namespace athanor::control

#include "athanor/launch/keeper/keeper_messages.h"

#include "athanor/control/message_fields.h"
#include "athanor/control/packet_channel.h"

namespace athanor::launch::keeper {
namespace {

using control::cut;
using control::Fields;
using control::Json;
using control::kMost;
using control::kMostInt;

constexpr size_t kMostOfDetails = 32768;

Json to_json(const TakeUp& m) {
  return {{"message", "take-up"},
          {"num_ranks", m.num_ranks},
          {"max_restarts", m.max_restarts},
          {"min_ranks", m.min_ranks},
          {"max_ranks", m.max_ranks},
          {"master_command", m.master_command},
          {"run_folder", m.run_folder},
          {"begun_in", m.begun_in},
          {"system_root", m.system_root},
          {"grace_ms", m.grace_ms},
          {"stopped_ms", m.stopped_ms},
          {"timeout_ms", m.timeout_ms},
          {"hang_ms", m.hang_ms},
          {"hang", m.hang},
          {"warm_up_ms", m.warm_up_ms},
          {"tells_slow", m.tells_slow},
          {"terminal", m.terminal},
          {"job", m.job},
          {"socket", m.socket},
          {"desk", m.desk},
          {"keeper", m.keeper},
          {"replaces", cut(m.replaces)}};
}
Json to_json(const RankStarted& m) {
  return {{"message", "started"},
          {"worker", m.worker},
          {"rank", m.rank},
          {"pid", m.pid},
          {"error", cut(m.error)}};
}
Json to_json(const Kept& m) {
  return {{"message", "kept"}, {"keys", m.keys}};
}
Json to_json(const AllIsGiven&) {
  return {{"message", "all"}};
}
Json to_json(const StopAskedFor& m) {
  return {{"message", "stop"}, {"signal", m.signal}, {"at_ns", m.at_ns}};
}
Json to_json(const Pause& m) {
  return {{"message", "pause"}, {"pauses", m.pauses}};
}
Json to_json(const WhyNot& m) {
  return {{"message", "answer"}, {"why_not", cut(m.why_not)}};
}
Json to_json(const StartRank& m) {
  return {{"message", "start"}, {"worker", m.worker}, {"rank", m.rank}, {"world_size", m.world_size}};
}
Json to_json(const RankEnded& m) {
  return {{"message", "ended"}, {"worker", m.worker}};
}
Json to_json(const SignalRank& m) {
  return {{"message", "signal"}, {"worker", m.worker}, {"signal", m.signal}};
}
Json to_json(const Keep& m) {
  return {{"message", "keep"}, {"keys", m.keys}};
}
Json to_json(const Forget& m) {
  return {{"message", "forget"}, {"keys", m.keys}};
}
Json to_json(const BegunIn& m) {
  return {{"message", "begun"}, {"run_folder", m.run_folder}};
}
Json to_json(const AskSetting& m) {
  return {{"message", "setting"}, {"setting", m.setting}};
}
Json to_json(const AskSize& m) {
  return {{"message", "size"}, {"num_ranks", m.num_ranks}};
}
Json to_json(const Paused&) {
  return {{"message", "paused"}};
}
Json to_json(const JobEnded& m) {
  const LaunchResult& result = m.result;
  return {{"message", "job-ended"},
          {"exit_code", result.exit_code},
          {"failed_rank", result.failed_rank},
          {"text", cut(result.message)},
          {"hint", cut(result.hint)},
          {"details", result.details.substr(0, kMostOfDetails)},
          {"num_lines_dropped", result.num_lines_dropped},
          {"run_folder", result.run_folder}};
}
Json to_json(const AgentFailure& m) {
  return {{"message", "failure"}, {"what", cut(m.what)}, {"hint", cut(m.hint)}, {"io_code", m.io_code}};
}

int whole(const Fields& fields, const char* key, int64_t least = 0) {
  return static_cast<int>(fields.number(key, least, kMostInt));
}

std::vector<std::string> texts(const Fields& fields, const char* key) {
  const Json& list = fields.at(key);
  if (!list.is_array()) fields.refuse(key, "expected an array");
  std::vector<std::string> texts;
  for (const Json& one : list) {
    if (!one.is_string()) fields.refuse(key, "expected an array of texts");
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

TakeUp read_take_up(const Fields& fields) {
  return {.num_ranks = whole(fields, "num_ranks", 1),
          .max_restarts = whole(fields, "max_restarts"),
          .min_ranks = whole(fields, "min_ranks"),
          .max_ranks = whole(fields, "max_ranks"),
          .master_command = texts(fields, "master_command"),
          .run_folder = fields.text("run_folder"),
          .begun_in = fields.text("begun_in"),
          .system_root = fields.text("system_root"),
          .grace_ms = fields.number("grace_ms", 0, kMost),
          .stopped_ms = fields.number("stopped_ms", 0, kMost),
          .timeout_ms = fields.number("timeout_ms", 0, kMost),
          .hang_ms = fields.number("hang_ms", 0, kMost),
          .warm_up_ms = fields.number("warm_up_ms", 0, kMost),
          .hang = whole(fields, "hang"),
          .tells_slow = fields.flag("tells_slow"),
          .terminal = fields.flag("terminal"),
          .job = fields.text("job"),
          .socket = fields.text("socket"),
          .desk = fields.text("desk"),
          .keeper = fields.number("keeper", 1, kMost),
          .replaces = fields.text("replaces")};
}

}  // namespace

std::string encode(const KeeperMessage& message) {
  return std::visit([](const auto& m) { return control::print(to_json(m)); }, message);
}
std::string encode(const AgentRequest& request) {
  return std::visit([](const auto& m) { return control::print(to_json(m)); }, request);
}

KeeperMessage decode_keeper_message(std::string_view text) {
  const Fields fields(text);
  const std::string& name = fields.name();
  if (name == "take-up") return read_take_up(fields);
  if (name == "started")
    return RankStarted{.worker = whole(fields, "worker"),
                       .rank = whole(fields, "rank"),
                       .pid = fields.number("pid", 0, kMost),
                       .error = fields.text("error")};
  if (name == "kept") return Kept{texts(fields, "keys")};
  if (name == "all") return AllIsGiven{};
  if (name == "stop") return StopAskedFor{whole(fields, "signal"), fields.number("at_ns", 0, kMost)};
  if (name == "pause") return Pause{fields.flag("pauses")};
  if (name == "answer") return WhyNot{fields.text("why_not")};
  fields.refuse("message", "which no keeper sends");
}

AgentRequest decode_agent_request(std::string_view text) {
  const Fields fields(text);
  const std::string& name = fields.name();
  if (name == "start")
    return StartRank{whole(fields, "worker"), whole(fields, "rank"), whole(fields, "world_size", 1)};
  if (name == "ended") return RankEnded{whole(fields, "worker")};
  if (name == "signal") return SignalRank{whole(fields, "worker"), whole(fields, "signal", 1)};
  if (name == "keep") return Keep{texts(fields, "keys")};
  if (name == "forget") return Forget{texts(fields, "keys")};
  if (name == "begun") return BegunIn{fields.text("run_folder")};
  if (name == "size") return AskSize{whole(fields, "num_ranks")};
  if (name == "setting") return AskSetting{fields.text("setting")};
  if (name == "paused") return Paused{};
  if (name == "job-ended")
    return JobEnded{{.exit_code = whole(fields, "exit_code"),
                     .failed_rank = whole(fields, "failed_rank", -1),
                     .message = fields.text("text"),
                     .hint = fields.text("hint"),
                     .details = fields.text("details", kMostOfDetails),
                     .num_lines_dropped = whole(fields, "num_lines_dropped"),
                     .run_folder = fields.text("run_folder")}};
  if (name == "failure")
    return AgentFailure{fields.text("what"), fields.text("hint"), whole(fields, "io_code", -1)};
  fields.refuse("message", "which no agent asks of its keeper");
}

}  // namespace athanor::launch::keeper

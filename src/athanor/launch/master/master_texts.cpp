// What a Master wants done, and the packets of master_process.h, as text.
#include "athanor/control/message_fields.h"
#include "athanor/control/packet_channel.h"
#include "athanor/launch/master/master_process.h"

namespace athanor::launch::master {
namespace {

using control::Fields;
using control::Json;
using control::kMost;
using control::kMostInt;
using control::kPacketBytes;
using control::kRanksLimit;

Json to_json(const StartWorker& action) {
  return {{"message", "start"}, {"worker", action.worker}, {"rank", action.rank}};
}
Json to_json(const FormWorld& action) {
  Json members = Json::array();
  for (const FormWorld::Member& member : action.members)
    members.push_back({{"worker", member.worker}, {"left", member.left}});
  return {{"message", "form"},
          {"generation", action.generation},
          {"why", control::cut(action.why)},
          {"members", members},
          {"left_generation", action.left_generation},
          {"save", action.order.save},
          {"rollback_step", action.order.rollback_step},
          {"set", control::cut(action.order.set)}};
}
Json to_json(const BreakWorld& action) {
  return {{"message", "break"}, {"rank", action.rank}, {"why", control::cut(action.why)}};
}
Json to_json(const LeaveWorld& action) {
  return {{"message", "leave"}, {"rank", action.rank}};
}
Json to_json(const ReleaseSlots& action) {
  return {{"message", "release"}, {"before", action.before}};
}
Json to_json(const SendToWorker& action) {
  return {{"message", "send"}, {"worker", action.worker}, {"text", encode(action.message)}};
}
Json to_json(const SignalWorker& action) {
  return {{"message", "signal"}, {"worker", action.worker}, {"number", action.number}};
}
Json to_json(const Say& action) {
  return {{"message", "say"}, {"line", control::cut(action.line)}};
}
Json to_json(const JobEvent& action) {
  return {{"message", "event"},
          {"event", action.event},
          {"step", action.step},
          {"generation", action.generation},
          {"rank", action.rank},
          {"cause", control::cut(action.cause)},
          {"detect_seconds", action.detect_seconds},
          {"recover_seconds", action.recover_seconds},
          {"lost_steps", action.lost_steps}};
}

int whole(const Fields& fields, const char* key, int64_t least = 0) {
  return static_cast<int>(fields.number(key, least, kMostInt));
}

FormWorld read_form(const Fields& fields) {
  FormWorld form{.generation = fields.number("generation", 0, kMost),
                 .why = fields.text("why"),
                 .members = {},
                 .left_generation = fields.number("left_generation", -1, kMost),
                 .order = {.save = fields.flag("save"),
                           .rollback_step = fields.number("rollback_step", -1, kMost),
                           .set = fields.text("set")}};
  const Json& members = fields.at("members");
  if (!members.is_array() || members.empty()) fields.refuse("members", "expected an array of one at least");
  for (const Json& member : members) {
    if (!member.is_object() || !member.contains("worker") || !member.contains("left") ||
        !member["left"].is_array())
      fields.refuse("members", "expected objects with worker and left");
    FormWorld::Member one{static_cast<int>(fields.number("members", member["worker"], 0, kMostInt)), {}};
    for (const Json& left : member["left"])
      one.left.push_back(static_cast<int>(fields.number("members", left, 0, kRanksLimit - 1)));
    form.members.push_back(std::move(one));
  }
  return form;
}

}  // namespace

std::string encode(const MasterAction& action) {
  return std::visit([](const auto& one) { return control::print(to_json(one)); }, action);
}

MasterAction decode_action(std::string_view text) {
  const Fields fields(text);
  const std::string& name = fields.name();
  if (name == "start") return StartWorker{whole(fields, "worker"), whole(fields, "rank")};
  if (name == "form") return read_form(fields);
  if (name == "break") return BreakWorld{whole(fields, "rank"), fields.text("why")};
  if (name == "leave") return LeaveWorld{whole(fields, "rank")};
  if (name == "release") return ReleaseSlots{fields.number("before", 0, kMost)};
  if (name == "send")
    return SendToWorker{whole(fields, "worker"),
                        control::decode_agent_message(fields.text("text", kPacketBytes))};
  if (name == "signal")
    return SignalWorker{whole(fields, "worker"), static_cast<int>(fields.number("number", 1, 64))};
  if (name == "say") return Say{fields.text("line")};
  if (name == "event")
    return JobEvent{.event = fields.text("event"),
                    .step = fields.number("step", -1, kMost),
                    .generation = fields.number("generation", -1, kMost),
                    .rank = whole(fields, "rank", -1),
                    .cause = fields.text("cause"),
                    .detect_seconds = fields.real("detect_seconds"),
                    .recover_seconds = fields.real("recover_seconds"),
                    .lost_steps = fields.number("lost_steps", -1, kMost)};
  fields.refuse("message", "which no master sends");
}

namespace {

int int_of(const Fields& fields, const char* key, int64_t least) {
  return static_cast<int>(fields.number(key, least, kMostInt));
}

}  // namespace

std::string encode(const ServeMaster& request) {
  const MasterOptions& options = request.options;
  return control::print(Json{{"message", "serve"},
                             {"num_ranks", options.num_ranks},
                             {"first_rank", options.first_rank},
                             {"max_restarts", options.max_restarts},
                             {"min_ranks", options.min_ranks},
                             {"max_ranks", options.max_ranks},
                             {"grace_ns", options.grace_ns},
                             {"start_ns", options.start_ns},
                             {"warm_up_ns", options.warm_up_ns},
                             {"meet", options.meet},
                             {"journal", request.journal}});
}

ServeMaster decode_serve(std::string_view text) {
  const Fields fields(text);
  if (fields.name() != "serve") fields.refuse("message", "expected 'serve' first");
  return {.options = {.num_ranks = int_of(fields, "num_ranks", 1),
                      .first_rank = int_of(fields, "first_rank", 0),
                      .max_restarts = int_of(fields, "max_restarts", 0),
                      .min_ranks = int_of(fields, "min_ranks", 0),
                      .max_ranks = int_of(fields, "max_ranks", 0),
                      .grace_ns = fields.number("grace_ns", 0, kMost),
                      .start_ns = fields.number("start_ns", 0, kMost),
                      .warm_up_ns = fields.number("warm_up_ns", 0, kMost),
                      .meet = fields.flag("meet")},
          .journal = fields.text("journal")};
}

std::string encode(const TellMaster& request) {
  return control::print(
      Json{{"message", "tell"}, {"number", request.number}, {"input", encode(request.input)}});
}
std::string encode(const AskMaster& request) {
  return control::print(Json{{"message", request.verdict ? "verdict" : "status"},
                             {"now_ns", request.now_ns},
                             {"blamed", request.blamed}});
}

std::string encode(const RepeatActions& request) {
  return control::print(Json{{"message", "repeat"}, {"from", request.from}});
}

std::variant<TellMaster, AskMaster, RepeatActions> decode_request(std::string_view text) {
  const Fields fields(text);
  const std::string& name = fields.name();
  if (name == "tell")
    return TellMaster{fields.number("number", 1, kMost), decode_input(fields.text("input", kPacketBytes))};
  if (name == "status" || name == "verdict")
    return AskMaster{.verdict = name == "verdict",
                     .now_ns = fields.number("now_ns", 0, kMost),
                     .blamed = int_of(fields, "blamed", -1)};
  if (name == "repeat") return RepeatActions{fields.number("from", 0, kMost)};
  fields.refuse("message", "which no agent asks of its master");
}

std::string encode(const Told& told) {
  const MasterSummary& summary = told.summary;
  return control::print(Json{{"message", "told"},
                             {"number", told.number},
                             {"why_not", control::cut(told.why_not)},
                             {"done", summary.done},
                             {"goes_on", summary.goes_on},
                             {"next_tick_ns", summary.next_tick_ns},
                             {"generation", summary.generation},
                             {"step", summary.step},
                             {"begun", summary.begun},
                             {"warm_up", summary.warm_up},
                             {"stop", summary.stop},
                             {"workers", summary.workers}});
}

std::optional<Told> decode_told(std::string_view text) {
  const Fields fields(text);
  if (fields.name() != "told") return std::nullopt;
  Told told{.number = fields.number("number", 0, kMost),
            .why_not = fields.text("why_not"),
            .summary = {.done = fields.flag("done"),
                        .goes_on = fields.flag("goes_on"),
                        .next_tick_ns = fields.number("next_tick_ns", 0, kMost),
                        .generation = fields.number("generation", -1, kMost),
                        .step = fields.number("step", -1, kMost),
                        .begun = fields.number("begun", -1, kMost),
                        .warm_up = fields.number("warm_up", -1, kMost),
                        .stop = int_of(fields, "stop", 0),
                        .workers = {}}};
  const Json& workers = fields.at("workers");
  if (!workers.is_array()) fields.refuse("workers", "expected an array");
  for (const Json& worker : workers)
    told.summary.workers.push_back(static_cast<int>(fields.number("workers", worker, -1, kMostInt)));
  return told;
}

std::string encode(const Verdict& verdict) {
  return control::print(Json{{"message", "verdict"},
                             {"exit_code", verdict.exit_code},
                             {"failed_rank", verdict.failed_rank},
                             {"num_others_failed", verdict.num_others_failed},
                             {"rank_0_says_it", verdict.rank_0_says_it},
                             {"text", control::cut(verdict.message)},
                             {"what", control::cut(verdict.what)},
                             {"hint", control::cut(verdict.hint)}});
}

Verdict decode_verdict(std::string_view text) {
  const Fields fields(text);
  if (fields.name() != "verdict") fields.refuse("message", "expected 'verdict'");
  return {.exit_code = int_of(fields, "exit_code", 0),
          .failed_rank = int_of(fields, "failed_rank", -1),
          .num_others_failed = int_of(fields, "num_others_failed", 0),
          .rank_0_says_it = fields.flag("rank_0_says_it"),
          .message = fields.text("text"),
          .what = fields.text("what"),
          .hint = fields.text("hint")};
}

}  // namespace athanor::launch::master

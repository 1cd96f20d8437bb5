// Of master_inputs.h: what a Master wants done, as text.
#include "athanor/control/message_fields.h"
#include "athanor/control/packet_channel.h"
#include "athanor/launch/master_inputs.h"

namespace athanor::launch {
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
          {"rollback_step", action.order.rollback_step}};
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

double seconds(const Fields& fields, const char* key) {
  const Json& value = fields.at(key);
  if (!value.is_number()) fields.refuse(key, "expected a number");
  return value.get<double>();
}

FormWorld read_form(const Fields& fields) {
  FormWorld form{
      .generation = fields.number("generation", 0, kMost),
      .why = fields.text("why"),
      .members = {},
      .left_generation = fields.number("left_generation", -1, kMost),
      .order = {.save = fields.flag("save"), .rollback_step = fields.number("rollback_step", -1, kMost)}};
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
                    .detect_seconds = seconds(fields, "detect_seconds"),
                    .recover_seconds = seconds(fields, "recover_seconds"),
                    .lost_steps = fields.number("lost_steps", -1, kMost)};
  fields.refuse("message", "which no master sends");
}

}  // namespace athanor::launch

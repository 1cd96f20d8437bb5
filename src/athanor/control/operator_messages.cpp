#include "athanor/control/operator_messages.h"

#include <array>
#include <limits>

#include "athanor/control/message_fields.h"

namespace athanor::control {
namespace {

constexpr std::array<std::string_view, 5> kStates = {"starting", "meeting", "training", "leaving", "ended"};
Json to_json(const AskStatus&) {
  return {{"message", "status"}};
}
Json to_json(const ScaleTo& m) {
  return {{"message", "scale"}, {"num_ranks", m.num_ranks}};
}
Json to_json(const KillRank& m) {
  return {{"message", "kill"}, {"rank", m.rank}};
}
Json to_json(const SaveNow&) {
  return {{"message", "snapshot"}};
}
Json to_json(const GoBack& m) {
  return {{"message", "rollback"}, {"step", m.step}};
}
Json to_json(const Set& m) {
  return {{"message", "set"}, {"setting", cut(m.setting)}};
}
// A rank is an array, so that those of a thousand fit into a packet.
Json to_json(const JobStatus& m) {
  Json ranks = Json::array();
  for (const RankStatus& one : m.ranks)
    ranks.push_back(Json::array({one.rank, one.pid, one.node, static_cast<int>(one.state), one.step}));
  return {{"message", "job"},           {"run", cut(m.run)}, {"step", m.step},
          {"generation", m.generation}, {"ranks", ranks},    {"goodput", m.goodput}};
}
Json to_json(const Working& m) {
  return {{"message", "working"}, {"what", cut(m.what)}};
}
Json to_json(const Done& m) {
  return {{"message", "done"}, {"what", cut(m.what)}};
}
Json to_json(const Refused& m) {
  return {{"message", "refused"}, {"why", cut(m.why)}};
}

RankStatus read_rank(const Fields& fields, const Json& rank) {
  if (!rank.is_array() || rank.size() != 5) fields.refuse("ranks", "expected arrays of five numbers");
  const auto number = [&](size_t at, int64_t least, int64_t most) {
    return fields.number("ranks", rank[at], least, most);
  };
  return {.rank = static_cast<int>(number(0, 0, kRanksLimit - 1)),
          .pid = number(1, -1, kMost),
          .node = static_cast<int>(number(2, 0, kRanksLimit - 1)),
          .state = static_cast<RankState>(number(3, 0, static_cast<int64_t>(kStates.size()) - 1)),
          .step = number(4, -1, kMost)};
}

JobStatus read_job(const Fields& fields) {
  JobStatus job{.run = fields.text("run"),
                .step = fields.number("step", -1, kMost),
                .generation = fields.number("generation", -1, kMost)};
  const Json& goodput = fields.at("goodput");
  if (!goodput.is_number() || goodput.get<double>() < 0.0 || goodput.get<double>() > 1.0)
    fields.refuse("goodput", "expected a number of 0 to 1");
  job.goodput = goodput.get<double>();
  const Json& ranks = fields.at("ranks");
  if (!ranks.is_array()) fields.refuse("ranks", "expected an array");
  for (const Json& rank : ranks) job.ranks.push_back(read_rank(fields, rank));
  return job;
}

}  // namespace

std::string_view name_of(RankState state) {
  return kStates.at(static_cast<size_t>(state));
}

std::string encode(const OperatorRequest& request) {
  return std::visit([](const auto& m) { return print(to_json(m)); }, request);
}
std::string encode(const OperatorAnswer& answer) {
  return std::visit([](const auto& m) { return print(to_json(m)); }, answer);
}

OperatorRequest decode_operator_request(std::string_view text) {
  const Fields fields(text);
  const std::string& name = fields.name();
  if (name == "status") return AskStatus{};
  if (name == "scale") return ScaleTo{static_cast<int>(fields.number("num_ranks", 0, kMostInt))};
  if (name == "kill") return KillRank{static_cast<int>(fields.number("rank", 0, kMostInt))};
  if (name == "snapshot") return SaveNow{};
  if (name == "set") return Set{fields.text("setting")};
  if (name == "rollback") return GoBack{fields.number("step", 0, kMost)};
  fields.refuse("message", "which no operator sends");
}

OperatorAnswer decode_operator_answer(std::string_view text) {
  const Fields fields(text);
  const std::string& name = fields.name();
  if (name == "job") return read_job(fields);
  if (name == "working") return Working{fields.text("what")};
  if (name == "done") return Done{fields.text("what")};
  if (name == "refused") return Refused{fields.text("why")};
  fields.refuse("message", "which no launcher sends");
}

}  // namespace athanor::control

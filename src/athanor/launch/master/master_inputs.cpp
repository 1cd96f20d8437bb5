#include "athanor/launch/master/master_inputs.h"

#include "athanor/control/message_fields.h"
#include "athanor/control/packet_channel.h"

namespace athanor::launch::master {
namespace {

using control::Fields;
using control::Json;
using control::kMost;
using control::kMostInt;
using control::kPacketBytes;

Json to_json(const Started&) {
  return {{"message", "started"}};
}
Json to_json(const WorkerSaid& input) {
  return {{"message", "said"}, {"worker", input.worker}, {"text", encode(input.message)}};
}
Json to_json(const WorkerRefused& input) {
  return {{"message", "refused"}, {"worker", input.worker}, {"why", control::cut(input.why)}};
}
Json to_json(const WorkerExited& input) {
  return {{"message", "exited"},
          {"worker", input.worker},
          {"exit_code", input.end.exit_code},
          {"signal", input.end.signal_number},
          {"how", control::cut(input.end.how)},
          {"meaning", control::cut(input.end.meaning)},
          {"seen_ns", input.end.seen_ns}};
}
Json to_json(const AgentFailed& input) {
  return {{"message", "failed"}, {"why", control::cut(input.why)}};
}
Json to_json(const StopAsked& input) {
  return {{"message", "stop"}, {"signal", input.signal}, {"again", input.again}};
}
Json to_json(const ScaleAsked& input) {
  return {{"message", "scale"}, {"num_ranks", input.num_ranks}};
}
Json to_json(const OrderAsked& input) {
  return {{"message", "order"},
          {"save", input.order.save},
          {"rollback_step", input.order.rollback_step},
          {"set", control::cut(input.order.set)}};
}
Json to_json(const Ticked&) {
  return {{"message", "ticked"}};
}

int worker_of(const Fields& fields) {
  return static_cast<int>(fields.number("worker", 0, kMostInt));
}

}  // namespace

std::string encode(const MasterInput& input) {
  Json json = std::visit([](const auto& what) { return to_json(what); }, input.what);
  json["now_ns"] = input.now_ns;
  return control::print(json);
}

MasterInput decode_input(std::string_view text) {
  const Fields fields(text);
  const std::string& name = fields.name();
  MasterInput input{.now_ns = fields.number("now_ns", 0, kMost)};
  if (name == "started") {
    input.what = Started{};
  } else if (name == "said") {
    input.what =
        WorkerSaid{worker_of(fields), control::decode_worker_message(fields.text("text", kPacketBytes))};
  } else if (name == "refused") {
    input.what = WorkerRefused{worker_of(fields), fields.text("why")};
  } else if (name == "exited") {
    input.what = WorkerExited{worker_of(fields),
                              {.exit_code = static_cast<int>(fields.number("exit_code", -1, 255)),
                               .signal_number = static_cast<int>(fields.number("signal", 0, 64)),
                               .how = fields.text("how"),
                               .meaning = fields.text("meaning"),
                               .seen_ns = fields.number("seen_ns", -1, kMost)}};
  } else if (name == "failed") {
    input.what = AgentFailed{fields.text("why")};
  } else if (name == "stop") {
    input.what = StopAsked{static_cast<int>(fields.number("signal", 1, 64)), fields.flag("again")};
  } else if (name == "scale") {
    input.what = ScaleAsked{static_cast<int>(fields.number("num_ranks", 0, kMostInt))};
  } else if (name == "order") {
    input.what = OrderAsked{{.save = fields.flag("save"),
                             .rollback_step = fields.number("rollback_step", -1, kMost),
                             .set = fields.text("set")}};
  } else if (name == "ticked") {
    input.what = Ticked{};
  } else {
    fields.refuse("message", "which no agent sends to its master");
  }
  return input;
}

namespace {

struct Telling {
  Master& master;
  int64_t now_ns;

  std::string operator()(const Started&) const {
    master.start(now_ns);
    return "";
  }
  std::string operator()(const WorkerSaid& said) const {
    const int worker = said.worker;
    if (std::holds_alternative<control::Hello>(said.message)) master.hello(worker, now_ns);
    if (const auto* ready = std::get_if<control::Ready>(&said.message))
      master.ready(worker, ready->why, now_ns);
    if (const auto* begun = std::get_if<control::Begun>(&said.message))
      master.begun(worker, begun->generation, begun->step, now_ns);
    if (const auto* saved = std::get_if<control::Saved>(&said.message)) master.saved(worker, *saved);
    if (const auto* measured = std::get_if<control::WarmedUp>(&said.message))
      master.warmed_up(worker, *measured, now_ns);
    if (const auto* progress = std::get_if<control::Progress>(&said.message))
      master.progress(worker, *progress);
    if (const auto* farewell = std::get_if<control::Farewell>(&said.message))
      master.farewell(worker, *farewell);
    return "";
  }
  std::string operator()(const WorkerRefused& refused) const {
    master.refused(refused.worker, refused.why, now_ns);
    return "";
  }
  std::string operator()(const WorkerExited& exited) const {
    master.exited(exited.worker, exited.end, now_ns);
    return "";
  }
  std::string operator()(const AgentFailed& failed) const {
    master.failed(failed.why, now_ns);
    return "";
  }
  std::string operator()(const StopAsked& stop) const {
    master.stop(stop.signal, stop.again, now_ns);
    return "";
  }
  std::string operator()(const ScaleAsked& scale) const { return master.scale(scale.num_ranks, now_ns); }
  std::string operator()(const OrderAsked& asked) const { return master.order(asked.order, now_ns); }
  std::string operator()(const Ticked&) const {
    master.tick(now_ns);
    return "";
  }
};

}  // namespace

std::string tell(Master& master, const MasterInput& input) {
  return std::visit(Telling{master, input.now_ns}, input.what);
}

}  // namespace athanor::launch::master

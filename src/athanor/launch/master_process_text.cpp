// Of master_process.h: its packets as text.
#include "athanor/control/message_fields.h"
#include "athanor/launch/master_process.h"

namespace athanor::launch {
namespace {

using control::Fields;
using control::Json;
using control::kMost;
using control::kMostInt;
using control::kPacketBytes;

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

std::variant<TellMaster, AskMaster> decode_request(std::string_view text) {
  const Fields fields(text);
  const std::string& name = fields.name();
  if (name == "tell")
    return TellMaster{fields.number("number", 1, kMost), decode_input(fields.text("input", kPacketBytes))};
  if (name == "status" || name == "verdict")
    return AskMaster{.verdict = name == "verdict",
                     .now_ns = fields.number("now_ns", 0, kMost),
                     .blamed = int_of(fields, "blamed", -1)};
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
                             {"workers", summary.workers}});
}

std::optional<Told> decode_told(std::string_view text) {
  const Fields fields(text);
  if (fields.name() != "told") return std::nullopt;
  Told told{.number = fields.number("number", 1, kMost),
            .why_not = fields.text("why_not"),
            .summary = {.done = fields.flag("done"),
                        .goes_on = fields.flag("goes_on"),
                        .next_tick_ns = fields.number("next_tick_ns", 0, kMost),
                        .generation = fields.number("generation", -1, kMost),
                        .step = fields.number("step", -1, kMost),
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
                             {"killed", verdict.killed},
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
          .killed = fields.flag("killed"),
          .rank_0_says_it = fields.flag("rank_0_says_it"),
          .message = fields.text("text"),
          .what = fields.text("what"),
          .hint = fields.text("hint")};
}

}  // namespace athanor::launch

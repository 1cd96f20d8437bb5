#include "worker.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fmt/core.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <new>
#include <system_error>

#include "apps/command_line/program.h"
#include "athanor/base/error.h"
#include "athanor/comm/call_mismatch.h"
#include "athanor/control/agent_link.h"
#include "athanor/run/finite.h"
#include "athanor/run/launched_rendezvous.h"

namespace athanor::apps {
namespace {

std::string limit_of(__rlimit_resource resource, const char* name) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "";
  return fmt::format(" ({} is {})", name, limit.rlim_cur);
}

// What the system refuses to give this process; "": nothing.
std::string exhausted(const std::exception& error) {
  int code = 0;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) code = ENOMEM;
  if (const auto* system = dynamic_cast<const std::system_error*>(&error)) code = system->code().value();
  if (const auto* io = dynamic_cast<const IoError*>(&error)) code = io->code();
  switch (code) {
    case ENOMEM:
      return "memory" + limit_of(RLIMIT_AS, "RLIMIT_AS");
    case EAGAIN:
      return "threads" + limit_of(RLIMIT_NPROC, "RLIMIT_NPROC");
    case EMFILE:
      return "descriptors" + limit_of(RLIMIT_NOFILE, "RLIMIT_NOFILE, ulimit -n,");
    case ENFILE:
      return "descriptors: those of all processes are used up";
    default:
      return "";
  }
}

Farewell last_words_of(const std::exception& error) {
  Farewell farewell{.status = Status::failed, .cause = Cause::error, .what = error.what(), .hint = {}};
  if (const auto* failure = dynamic_cast<const Failure*>(&error)) farewell.hint = failure->hint();
  if (dynamic_cast<const ConfigError*>(&error) != nullptr) farewell.cause = Cause::config;
  if (dynamic_cast<const NotFinite*>(&error) != nullptr) farewell.cause = Cause::not_finite;
  if (dynamic_cast<const CallMismatch*>(&error) != nullptr) farewell.cause = Cause::mismatch;
  if (dynamic_cast<const Recoverable*>(&error) != nullptr) farewell.cause = Cause::peer;
  if (dynamic_cast<const IoError*>(&error) != nullptr) farewell.cause = Cause::io;
  if (const std::string what = exhausted(error); !what.empty()) {
    farewell.cause = Cause::exhausted;
    farewell.what = fmt::format("the system gives no more {}: {}", what, error.what());
  }
  return farewell;
}

}  // namespace

bool is_worker_of_an_agent(const RankEnvironment& place, const Config& config) {
  return place.has_agent() && config.parallel.transport != "gloo" && config.parallel.transport != "mpi";
}

TrainReport train_as_worker(const RankEnvironment& place, const GroupOptions& options,
                            const MeasureOptions& measured,
                            const std::function<TrainReport(Rendezvous&)>& train) {
  AgentLink link({.path = place.control,
                  .job = place.job,
                  .worker = place.worker,
                  .on_stop = [](int signal) { kill(getpid(), signal); },
                  .on_lost =
                      [rank = place.rank](const std::string& why) {
                        if (rank == 0) std::fprintf(stderr, "athanor: %s\n", why.c_str());
                        kill(getpid(), SIGTERM);
                      },
                  .on_thread = options.on_thread,
                  .warm_up = [&] { return measure(measured); }});
  // It need not be killed any more where its launcher is: it will hear of it, save and end.
  prctl(PR_SET_PDEATHSIG, 0);
  LaunchedRendezvous rendezvous(link, options);
  try {
    TrainReport report = train(rendezvous);
    link.farewell({.status = report.status == "interrupted" ? Status::interrupted : Status::finished,
                   .cause = Cause::none,
                   .what = {},
                   .hint = {}});
    return report;
  } catch (const std::exception& error) {
    Farewell words = last_words_of(error);
    // A file or memory that is missing at the start would be missing again.
    if ((words.cause == Cause::io || words.cause == Cause::exhausted) && !rendezvous.has_begun())
      words.cause = Cause::error;
    link.farewell(words);
    // The launcher, which has told this rank to end, says why.
    const bool was_told =
        (words.cause == Cause::mismatch || dynamic_cast<const Recoverable*>(&error) != nullptr) &&
        !link.ended_because().empty();
    if (was_told && (place.rank != 0 || !rendezvous.has_begun())) throw Exit{1};
    throw;
  }
}

}  // namespace athanor::apps

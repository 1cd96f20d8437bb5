// A pipeline schedule's CSV from any bytes. What loads is valid: it is simulated without a deadlock, and
// what is written of it reads back as the same schedule. Whatever is wrong is an Error.
#include <cstdlib>

#include "athanor/base/error.h"
#include "athanor/pipeline/csv.h"
#include "athanor/pipeline/draw.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  athanor::Schedule schedule;
  try {
    schedule = athanor::parse_csv(input, "fuzz.csv");
  } catch (const athanor::Error&) {
    return 0;
  }
  const athanor::Simulation run = athanor::simulate(schedule, athanor::uniform_costs(schedule, {}));
  if (athanor::parse_csv(athanor::to_csv(schedule), "fuzz.csv") != schedule) std::abort();
  if (athanor::draw_text(schedule, run, 80).empty() || athanor::draw_svg(schedule, run).empty()) std::abort();
  return 0;
}

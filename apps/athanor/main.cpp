// athanor: trains large language models, from raw text to an evaluated model.
#include <CLI/CLI.hpp>

#include "apps/command_line/program.h"
#include "command.h"

int main(int argc, char** argv) {
  using namespace athanor::apps;
  CLI::App app{"athanor trains large language models, from raw text to an evaluated model.", "athanor"};
  prepare_program(app);
  add_corpus(app);
  add_tokenizer(app);
  add_dataset(app);
  add_init(app);
  add_train(app);
  add_launch(app);
  add_ctl(app);
  add_verify(app);
  add_chaos(app);
  add_evaluate(app);
  add_generate(app);
  add_plot(app);
  add_report(app);
  add_checkpoint(app);
  add_bench(app);
  add_schedule(app);
  add_attention(app);
  add_doctor(app);
  app.footer("athanor COMMAND --help tells more; README.md shows a whole run.");  // for itself only
  return run_program(app, argc, argv);
}

// athanor dataset ledger and dataset verify --ledger: which samples a run trains on, and which its decisions skip.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace athanor::apps {

void add_ledger(CLI::App& dataset);
// Of the steps that a run has saved. Error for what breaks law 3, for other data than the run had, and for a
// decisions.jsonl that is not the checkpoint's.
void verify_ledger(const std::string& run, bool json);

}  // namespace athanor::apps

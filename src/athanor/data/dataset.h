// All the data of a run: tokenizer and channels, as [data] of its config describes them.
//
//   const Dataset dataset = open_dataset(config, system_env(), {.threads = 2});
//   const Sampler sampler = make_sampler(dataset.channels, config.train.seed, config.train.global_batch_size);
//
// A channel's path is a text or JSONL file or a folder of them (document_reader.h), tokenized on first use
// into the cache (tokenize.h), or, where no such file exists, the prefix of a .bin/.idx pair. Text needs a
// tokenizer; token files do not, but then the size of the vocabulary must be given. A channel's valid_path is such a
// path too: all of it is held out, and data.valid_fraction says nothing about that channel.
//
// Thread rule: open_dataset may run in several processes or threads at once, one of them tokenizes; the
// Dataset is const afterwards. Errors: ConfigError for settings that do not fit together, Error naming the
// channel or the file for anything wrong with the data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "athanor/base/file.h"
#include "athanor/config/config.h"
#include "athanor/data/channel.h"
#include "athanor/data/tokenize.h"
#include "athanor/text/tokenizer.h"

namespace athanor {

struct DatasetOptions {
  int threads = 1;         // for tokenizing
  int64_t vocab_size = 0;  // of the model; 0: config.model.vocab_size, else the tokenizer's
  std::shared_ptr<const Tokenizer> tokenizer;  // instead of config.data.tokenizer, as a checkpoint brings one
  TokenizeProgress progress;                   // may be empty
  const std::atomic<int>* stop = nullptr;      // not zero: tokenizing is given up, Interrupted
};

struct Dataset {
  std::shared_ptr<const Tokenizer> tokenizer;  // null where only token files were given
  int64_t vocab_size = 0;                      // all ids are below
  std::vector<Channel> channels;
  // What a resumed run must find unchanged: one line per channel and one for what they share, for people and
  // for comparison.
  std::string identity;
  // What was left out, or read as one might not think, one sentence a line: for people.
  std::vector<std::string> remarks;
  // What was left out, by channel and file.
  struct Omission {
    std::string channel;
    LeftOut what;
  };
  std::vector<Omission> left_out;

  int64_t num_train_tokens() const;
  int64_t channel_index(const std::string& name) const;  // Error naming the nearest where there is none
};

Dataset open_dataset(const Config& config, Env& env, const DatasetOptions& options = {});

// The tokenizer alone, before the model's vocabulary is known; null where none is set.
std::shared_ptr<const Tokenizer> open_tokenizer(const Config& config, Env& env);

}  // namespace athanor

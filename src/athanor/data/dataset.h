// All the data of a run: tokenizer and channels, as [data] of its config describes them.
//
//   const Dataset dataset = open_dataset(config, system_env(), {.threads = 2});
//   const Sampler sampler = make_sampler(dataset.channels, config.train.seed, config.train.global_batch_size);
//
// A channel's path is one of
// - a text or JSON file or a folder of them (documents/document_reader.h), tokenized into the cache on first use,
//   which needs a tokenizer (tokenize.h).
// - the prefix of a .bin/.idx pair of token files; without a tokenizer the vocabulary's size must be given.
// - a folder with follow = true, or "-": a text without end, spooled into the folder of the run.
// A channel's valid_path is such a path, too: all of it is held out, and data.valid_fraction does not apply to the
// channel.
//
// Thread rule: open_dataset may run in several processes or threads at once, and one of them tokenizes; the Dataset is
// const afterwards. Errors: ConfigError for settings that do not fit together, Error naming the channel or the file for
// anything wrong with the data.
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

namespace athanor::data {

struct DatasetOptions {
  int threads = 1;         // for tokenizing
  int64_t vocab_size = 0;  // of the model; 0: config.model.vocab_size, else the tokenizer's
  int64_t steps = 0;       // of the phase, which epochs and tokens of channels are of; 0: config.train.steps
  std::shared_ptr<const Tokenizer> tokenizer = {};  // used instead of config.data.tokenizer: a checkpoint's
  TokenizeProgress progress = {};                   // may be empty
  const std::atomic<int>* stop = nullptr;           // nonzero: tokenizing stops with Interrupted
  // Whether texts without end are read (data/spool); false: only what a run has made of them.
  bool reads_streams = false;
  int standard_input = 0;  // the descriptor of channels whose path is "-"
};

struct Dataset {
  std::shared_ptr<const Tokenizer> tokenizer;  // null if only token files were given
  int64_t vocab_size = 0;                      // all ids are below
  std::vector<Channel> channels;
  // What a resumed run must find unchanged: one line per channel and one for what all channels share. Readable, and
  // compared as text.
  std::string identity;
  // Sentences for people about files that were left out or not read as one might expect.
  std::vector<std::string> remarks;
  // Files that were left out, by channel.
  struct Omission {
    std::string channel;
    LeftOut what;
  };
  std::vector<Omission> left_out;

  int64_t num_train_tokens() const;
};

Dataset open_dataset(const Config& config, Env& env, const DatasetOptions& options = {});

// The tokenizer alone, before the model's vocabulary is known; null if none is set.
std::shared_ptr<const Tokenizer> open_tokenizer(const Config& config, Env& env);

}  // namespace athanor::data

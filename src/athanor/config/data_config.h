// [data]: the data mixture of a run, its tokenizer and its sequences.
//
//   config.data.channels = {{.name = "en", .path = "data/en", .weight = 0.7}};
//
// A channel is one source of the mixture; losses are reported per channel. config/fields_train.cpp says of each key
// what it does, its limits and its costs. Thread rule: plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::config {

struct ChannelConfig {
  std::string name = {};
  std::string path =
      {};  // a .bin/.idx prefix, or a text/JSONL file or folder (each file optionally compressed)
  double weight = 1.0;          // share of the sequences, relative to the other channels
  std::string valid_path = {};  // validation text, like path; empty: the last part of path
  double epochs = 0.0;          // times through the channel in the phase; 0: its weight counts
  int64_t tokens = 0;           // places of sequences drawn from it in the phase; 0: its weight counts
  // Conversations instead of texts, with a loss on the answers alone: the key of a list of messages, or those of a prompt
  // and its answer. The template is a file of Jinja; empty: the tokenizer's own.
  std::string messages = {}, prompt = {}, answer = {}, chat_template = {};
  // Share of documents whose middle moves to their end (data/fill_in_the_middle.h), and of those with the suffix first.
  double fim_rate = 0.0, fim_spm_rate = 0.5;
  bool follow = false;  // path is a folder that grows, read as its files come (data/spool)
  // Its text has no end that is known: it is spooled, and read once.
  bool is_stream() const { return follow || path == "-"; }
  bool operator==(const ChannelConfig&) const = default;
};

struct DataConfig {
  std::vector<ChannelConfig> channels = {};
  std::string tokenizer = {};  // a tokenizer.json
  int64_t seq_len = 256;
  double valid_fraction = 0.01;   // the last part of the token stream of each channel without valid_path
  std::string cache = {};         // folder for token files made on first use; default: ".cache" in train.runs
  std::string text_key = "text";  // the JSONL field that holds the document
  // How documents become sequences: "stream" cuts them from the stream of all documents, "best-fit" packs whole documents
  // (data/packing/best_fit.h).
  std::string packing = "stream";
  int64_t shuffle_window = 1024;  // sequences of a text without end that are shuffled together
  double temperature =
      0.0;  // above 0: shares are sizes to the power 1 / temperature; 0: weights, epochs and tokens
  // true: a token attends only within its own document, in training and in evaluation; its position stays that in the
  // sequence.
  bool document_mask = false;
  // What is learned (data/objectives/objective.h): "next-token" or "masked"; "auto": what the model is for.
  std::string objective = "auto";
  double mask_rate = 0.15;  // masked: share of the tokens that are to be filled in
  double mask_random_rate = 0.1, mask_keep_rate = 0.1;  // of those: any token instead, and left as they are
  bool mask_whole_words = false;
  std::string mask_token = {};  // the tokenizer's, or an id where there is none; empty: [MASK] or <mask>
};

}  // namespace athanor::config

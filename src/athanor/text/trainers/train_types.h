// The types of tokenizers that trainer.h offers: each function turns counted words into a tokenizer.json. One file per
// type. Thread rule: pure functions.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "athanor/text/alphabet.h"
#include "athanor/text/pre_tokenizers/word_scanner.h"
#include "athanor/text/tokenizer_writer.h"
#include "athanor/text/trainers/bpe_trainer.h"
#include "athanor/text/trainers/trainer.h"
#include "athanor/text/trainers/training_words.h"
#include "athanor/text/trainers/word_counts.h"

namespace athanor::text::trainers {

std::string train_byte_bpe(const WordCounts& words, const TokenizerTrainerOptions& options);
std::string train_bpe(const WordCounts& words, const TokenizerTrainerOptions& options);
std::string train_word_piece(const WordCounts& words, const TokenizerTrainerOptions& options);
std::string train_unigram(const WordCounts& words, const TokenizerTrainerOptions& options);
std::string train_char(const WordCounts& chars, const TokenizerTrainerOptions& options);

// How WordPiece splits and normalizes text, as the tokenizer.json that it writes does.
WordSplitter word_piece_splitter();
OrderedJson word_piece_normalizer();

// What the types share.
WordPattern pattern_named(const std::string& name);
// The regular expression of a name, o200k among them; what is no name is one.
std::string pattern_regex(const std::string& pattern);
int64_t wanted_vocab_size(const TokenizerTrainerOptions& options);
// How many characters the vocabulary has room for after num_reserved tokens; ConfigError if none.
int64_t room_for_alphabet(const TokenizerTrainerOptions& options, int64_t num_reserved);
// The characters that get a token: at most `room`.
Alphabet alphabet_of(const WordCounts& words, const TokenizerTrainerOptions& options, int64_t room);
// The key normalizer of the tokenizer.json. ConfigError for a wrong list.
OrderedJson normalizer_of(const TokenizerTrainerOptions& options);
void check_not_special(const std::string& token, const TokenizerTrainerOptions& options);
std::vector<std::string> byte_tokens();  // <0x00> ... <0xFF>
TokenIds number(const std::vector<std::string>& tokens);
std::vector<std::pair<std::string, std::string>> text_merges(const BpeTrainer& trainer);

}  // namespace athanor::text::trainers

#include "athanor/text/pipeline.h"

#include <algorithm>

#include "athanor/base/check.h"
#include "athanor/base/hash.h"
#include "athanor/text/unicode.h"

namespace athanor::text {

Pipeline::Pipeline(PipelineParts parts) : parts_(std::move(parts)) {
  Model& model = *parts_.model;
  const bool pre_tokenizer_maps_bytes = parts_.pre_tokenizer && parts_.pre_tokenizer->maps_bytes();
  const bool maps_bytes = pre_tokenizer_maps_bytes || (parts_.normalizer && parts_.normalizer->maps_bytes());
  takes_any_byte_ = maps_bytes || model.takes_any_byte();
  if (parts_.normalizer) {
    std::string probe = "x";
    parts_.normalizer->apply(probe);
    if (probe.ends_with('x')) prefix_ = probe.substr(0, probe.size() - 1);
  }
  if (parts_.pre_tokenizer && model.can_read_raw_bytes() && parts_.pre_tokenizer->drop_final_byte_map())
    model.read_raw_bytes();
  vocab_size_ = model.vocabulary().size();
  for (const AddedToken& token : parts_.added_tokens) {
    added_by_id_[token.id] = &token;
    added_by_content_[token.content] = token.id;
    shown_[token.id] = shown(token, pre_tokenizer_maps_bytes);
    vocab_size_ = std::max(vocab_size_, token.id + 1);
  }
  all_ = std::make_unique<Matchers>(make_matchers(true));
  ordinary_ = std::make_unique<Matchers>(make_matchers(false));
}

Pipeline::Matchers Pipeline::make_matchers(bool with_special) const {
  std::vector<AddedToken> raw, normalized;
  const auto end_id = end_of_text();
  for (const AddedToken& token : parts_.added_tokens) {
    // Some files do not call their end-of-text special; a document must not forge it all the same.
    const bool special = token.special || token.id == end_id;
    if (!with_special && special) continue;
    auto& tokens = token.normalized ? normalized : raw;
    tokens.push_back(token);
    tokens.back().special = special;
    if (token.normalized && parts_.normalizer) parts_.normalizer->apply(normalized.back().content);
  }
  return {AddedTokenMatcher(std::move(raw)), AddedTokenMatcher(std::move(normalized))};
}

std::vector<int32_t> Pipeline::encode(std::string_view text) const {
  return encode_with(*all_, text, {});
}

std::vector<int32_t> Pipeline::encode_ordinary(std::string_view text) const {
  return encode_with(*ordinary_, text, {});
}

std::vector<int32_t> Pipeline::encode(std::string_view text, std::span<const ByteSpan> ordinary) const {
  return encode_with(*all_, text, ordinary);
}

std::vector<int32_t> Pipeline::encode_with(const Matchers& matchers, std::string_view text,
                                           std::span<const ByteSpan> ordinary) const {
  if (!takes_any_byte_) {
    const size_t bad = find_invalid_utf8(text);
    if (bad != std::string_view::npos)
      fail("{}: the text is not UTF-8: byte 0x{:02X} at offset {}", parts_.name,
           static_cast<uint8_t>(text[bad]), bad);
  }
  std::unique_ptr<WordCache> cache;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_caches_.empty()) {
      cache = std::move(idle_caches_.back());
      idle_caches_.pop_back();
    }
  }
  if (!cache) cache = std::make_unique<WordCache>();
  std::vector<int32_t> ids;
  const auto put = [&](Segment s) {
    if (s.id) return ids.push_back(*s.id);
    // Where a normalizer has passed over it, nothing says which byte is whose.
    const Matchers& here = touches(ordinary, s.begin, s.end) ? *ordinary_ : matchers;
    encode_segment(here, text.substr(s.begin, s.end - s.begin), s.begin == 0, *cache, ids);
  };
  matchers.raw.split(text, put, ordinary);
  const std::lock_guard lock(mutex_);
  idle_caches_.push_back(std::move(cache));
  return ids;
}

void Pipeline::encode_segment(const Matchers& matchers, std::string_view text, bool at_start,
                              WordCache& cache, std::vector<int32_t>& ids) const {
  std::string normalized;
  if (parts_.normalizer) {
    normalized = text;
    parts_.normalizer->apply(normalized);
    text = normalized;
  }
  matchers.normalized.split(text, [&](Segment s) {
    if (s.id) return ids.push_back(*s.id);
    encode_piece({text.substr(s.begin, s.end - s.begin), at_start && s.begin == 0}, cache, ids);
  });
}

void Pipeline::encode_piece(Piece piece, WordCache& cache, std::vector<int32_t>& ids) const {
  if (!parts_.pre_tokenizer) return encode_word(piece.text, cache, ids);
  parts_.pre_tokenizer->split(piece, [&](Piece word) { encode_word(word.text, cache, ids); });
}

void Pipeline::encode_word(std::string_view word, WordCache& cache, std::vector<int32_t>& ids) const {
  if (word.size() > WordCache::kMaxBytes) return parts_.model->encode_word(word, ids);
  const uint64_t hash = hash64(word);
  if (const auto known = cache.find(word, hash)) {
    ids.insert(ids.end(), known->begin(), known->end());
    return;
  }
  const size_t begin = ids.size();
  parts_.model->encode_word(word, ids);
  cache.put(word, hash, std::span(ids).subspan(begin));
}

const std::string* Pipeline::find_token(int32_t id) const {
  const auto added = added_by_id_.find(id);
  return added != added_by_id_.end() ? &added->second->content : parts_.model->vocabulary().token(id);
}

// An added token that is matched in normalized text decodes to its normalized text. A token that the model also has
// decodes as the model's token. All other added tokens decode to their own text, whatever the decoder would make of it.
Pipeline::Shown Pipeline::shown(const AddedToken& added, bool pre_tokenizer_maps_bytes) const {
  Shown shown{.token = {added.content, true}, .ends_segment = !added.normalized};
  if (added.normalized) {
    if (parts_.normalizer) parts_.normalizer->apply(shown.token.text);
    // It went around the byte map of the pre-tokenizer, which the decoder undoes.
    if (!shown.token.text.empty())
      shown.token.is_added = pre_tokenizer_maps_bytes;
    else
      shown.token.text = added.content;
  } else if (!added.special && parts_.model->vocabulary().find(added.content)) {
    shown = {.token = {added.content, false}, .ends_segment = false};
  }
  return shown;
}

std::string Pipeline::decode(std::span<const int32_t> ids) const {
  std::vector<Token> tokens;
  tokens.reserve(ids.size());
  bool segment_begins = false;  // behind an added token, where the normalizer put its prefix once more
  for (const int32_t id : ids) {
    const auto added = shown_.find(id);
    if (added == shown_.end() && token_of(id).empty()) continue;  // an id that was left free
    tokens.push_back(added != shown_.end() ? added->second.token : Token{token_of(id), false});
    const bool ends_segment = added != shown_.end() && added->second.ends_segment;
    if (segment_begins && !ends_segment && !prefix_.empty() && tokens.back().text.starts_with(prefix_))
      tokens.back().text.erase(0, prefix_.size());
    segment_begins = ends_segment;
  }
  if (parts_.decoder) parts_.decoder->decode(tokens);
  std::string text;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0 && !parts_.decoder) text += ' ';  // what Hugging Face does with a file that names no decoder
    text += tokens[i].text;
  }
  return text;
}

std::optional<int32_t> Pipeline::id_of(std::string_view token) const {
  const auto added = added_by_content_.find(token);
  return added != added_by_content_.end() ? added->second : parts_.model->vocabulary().find(token);
}

std::string Pipeline::token_of(int32_t id) const {
  check(id >= 0 && id < vocab_size_, "{}: id {} has no token, expected one of 0 to {}", parts_.name, id,
        vocab_size_ - 1);
  const std::string* const token = find_token(id);
  return token ? *token : std::string();
}

}  // namespace athanor::text

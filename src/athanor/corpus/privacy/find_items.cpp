#include "athanor/corpus/privacy/find_items.h"

#include <algorithm>

#include "athanor/corpus/privacy/matchers.h"

namespace athanor::corpus::privacy {

struct ItemFinder::Patterns {
  DomainPattern domain;
  NumberPatterns numbers;
  SecretPatterns secrets;
};

namespace finder_local {

enum Trigger : uint8_t { none, at_sign, digit, sign, token };

constexpr size_t index_of(ItemKind kind) {
  return static_cast<size_t>(kind);
}

// How many digits stand from `at` on with only what may divide a number between them. 20 are enough to know.
size_t digits_ahead(std::string_view text, size_t at) {
  size_t count = 0;
  int between = 0;
  const size_t end = std::min(text.size(), at + 40);
  for (size_t i = at; i < end && count < 20 && between < 4; ++i) {
    if (ascii_digit(text[i])) {
      ++count;
      between = 0;
    } else if (is_one_of(text[i], " .-()") || static_cast<unsigned char>(text[i]) == 0xEF ||
               (between > 0 && static_cast<unsigned char>(text[i]) >= 0x80)) {  // the bytes of "（" and "）"
      ++between;
    } else {
      break;
    }
  }
  return count;
}

bool hex_or_colon(char c) {
  return ascii_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':';
}

// Sorts and leaves of items that overlap the one that find_items.h names.
void keep_first(std::vector<Item>& items) {
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    if (a.end != b.end) return a.end > b.end;
    return a.kind < b.kind;
  });
  size_t kept = 0, covered = 0;
  for (const Item& item : items)
    if (item.begin >= covered) {
      covered = item.end;
      items[kept++] = item;
    }
  items.resize(kept);
}

}  // namespace finder_local

const char* item_kind_name(ItemKind kind) {
  static constexpr std::array<const char*, kItemKinds> kNames = {"secret",    "email", "iban", "id_card",
                                                                 "bank_card", "phone", "ipv4", "ipv6"};
  return kNames[static_cast<size_t>(kind)];
}

std::vector<ItemKind> all_item_kinds() {
  std::vector<ItemKind> kinds;
  for (uint8_t kind = 0; kind < kItemKinds; ++kind) kinds.push_back(static_cast<ItemKind>(kind));
  return kinds;
}

ItemFinder::ItemFinder(const FindOptions& options)
    : private_addresses_(options.private_addresses), patterns_(std::make_unique<Patterns>()) {
  for (const ItemKind kind : options.kinds) wanted_[finder_local::index_of(kind)] = true;
  const auto wants = [&](ItemKind kind) { return wanted_[finder_local::index_of(kind)]; };
  const auto stop_at = [&](std::string_view bytes, uint8_t trigger) {
    for (const char c : bytes) triggers_[static_cast<unsigned char>(c)] = trigger;
  };
  if (wants(ItemKind::email)) stop_at("@", finder_local::at_sign);
  if (wants(ItemKind::iban) || wants(ItemKind::id_card) || wants(ItemKind::bank_card) ||
      wants(ItemKind::phone) || wants(ItemKind::ipv4))
    stop_at("0123456789", finder_local::digit);
  if (wants(ItemKind::secret)) stop_at("KSzJ_-", finder_local::token);
  if (wants(ItemKind::secret)) stop_at("=", finder_local::sign);
  if (wants(ItemKind::secret) || wants(ItemKind::ipv6)) stop_at(":", finder_local::sign);
}

ItemFinder::~ItemFinder() = default;

void ItemFinder::find(std::string_view text, std::vector<Item>& items) const {
  using namespace finder_local;
  items.clear();
  const auto wants = [&](ItemKind kind) { return wanted_[index_of(kind)]; };
  const auto add = [&](Span span, ItemKind kind) {
    if (span.end > 0) items.push_back({span.begin, span.end, kind});
  };
  const size_t size = text.size();
  size_t next_key_end = 0;  // the next "-----END ", looked up once for each of them
  bool looked_up = false;
  for (size_t at = 0; at < size;) {
    const uint8_t trigger = triggers_[static_cast<unsigned char>(text[at])];
    if (trigger == none) [[likely]] {
      ++at;
      continue;
    }
    size_t next = at + 1;
    if (trigger == digit) {
      while (next < size && ascii_digit(text[next])) ++next;
      const size_t run = next - at;
      if (wants(ItemKind::iban)) add(match_iban(text, at), ItemKind::iban);
      if (wants(ItemKind::ipv4) && run <= 3 && byte_at(text, next) == '.' &&
          ascii_digit(byte_at(text, next + 1)))
        add({at, match_ipv4(text, at, private_addresses_)}, ItemKind::ipv4);
      const char divider = byte_at(text, next);
      if (run >= 8 || is_one_of(divider, " .-()") || static_cast<unsigned char>(divider) == 0xEF) {
        const size_t digits = run >= 20 ? 20 : digits_ahead(text, at);
        if (wants(ItemKind::id_card) && (run == 17 || run == 18))
          add({at, match_id_card(text, at)}, ItemKind::id_card);
        if (wants(ItemKind::bank_card) && digits >= 14 && run < 20)
          add({at, match_bank_card(text, at)}, ItemKind::bank_card);
        if (wants(ItemKind::phone) && digits >= 8 && run <= 15)
          match_phones(text, at, patterns_->numbers, items);
      }
    } else if (trigger == at_sign) {
      add(match_email(text, at, patterns_->domain.domain), ItemKind::email);
    } else if (trigger == sign) {
      if (wants(ItemKind::secret)) add(match_assignment(text, at, patterns_->secrets), ItemKind::secret);
      // Only at the first colon of an address.
      if (wants(ItemKind::ipv6) && text[at] == ':' && hex_or_colon(byte_at(text, at + 1))) {
        size_t left = at;
        while (left > 0 && at - left < 5 && hex_or_colon(text[left - 1]) && text[left - 1] != ':') --left;
        if (byte_before(text, left) != ':' || left == at)
          add(match_ipv6(text, at, private_addresses_), ItemKind::ipv6);
      }
    } else if (text[at] == '-' && byte_at(text, at + 1) == '-') {
      while (next < size && text[next] == '-') ++next;  // a line of many
      if (next - at >= 5 && text.substr(next, 6) == "BEGIN ") {
        if (!looked_up || next_key_end < at) next_key_end = text.find("-----END ", at);
        looked_up = true;
        if (const size_t end = match_private_key(text, next - 5, next_key_end)) {
          items.push_back({next - 5, end, ItemKind::secret});
          next = end;
        }
      }
    } else {
      const Span span = match_token(text, at, patterns_->secrets);
      add(span, ItemKind::secret);
    }
    at = next;
  }
  keep_first(items);
}

}  // namespace athanor::corpus::privacy

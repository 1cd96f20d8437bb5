// Finds personal data and secrets in a text, in linear time.
//
//   const ItemFinder finder({.kinds = all_item_kinds(), .private_addresses = false});
//   std::vector<Item> items;
//   finder.find("Mail a.b@example.org", items);  // {5, 20, ItemKind::email}
//
// One pass over the bytes stops at those that an item must hold: '@', a digit, ':', '-', '=', '_' and a few letters. A
// window of bounded length around such a byte is matched, so time grows with the text alone. A match counts only if it
// passes its check: a checksum, a known prefix and length, what stands before and behind it.
//
//   email      local part up to 64 bytes, a domain with at least one dot that is no name of a file ("img@2x.png")
//   phone      "+" and 8 to 15 digits; North American with separators, or 10 digits behind a word such as "tel";
//              Chinese mobile (valid prefix) and landline (area code, separator or parentheses)
//   ipv4       public, not a version: no "v", "version", "NAME/" or "NAME-" in front, no suffix
//   ipv6       public (2000::/3 without documentation ranges)
//   id_card    Chinese resident card: 18 places, province, date, ISO 7064 MOD 11-2
//   bank_card  Luhn, and a prefix with its length: Visa, Mastercard, American Express, Discover, UnionPay, JCB, Diners
//   iban       a country's length, ISO 7064 MOD 97-10; upper case, whole or in groups of four
//   secret     private keys (PEM), keys of AWS, GitHub, GitLab, Slack, Google and "sk-", JWT, and the value of an
//              assignment to a name such as api_key, if it is random enough (3 bits a character)
//
// Numbers inside longer runs of digits, and behind words such as ISBN, DOI or "order", are not items. Items are ASCII,
// so cutting one keeps UTF-8 whole. Of items that overlap the leftmost stays; of those that begin together the longest;
// of those with equal ends the kind that comes first in ItemKind.
//
// Thread rule: find() from any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "athanor/base/namespaces.h"

namespace athanor::corpus::privacy {

enum class ItemKind : uint8_t { secret, email, iban, id_card, bank_card, phone, ipv4, ipv6 };
constexpr size_t kItemKinds = 8;
const char* item_kind_name(ItemKind kind);  // "id_card"
std::vector<ItemKind> all_item_kinds();

struct Item {
  size_t begin = 0;
  size_t end = 0;
  ItemKind kind = ItemKind::secret;
  bool operator==(const Item&) const = default;
};

struct FindOptions {
  std::vector<ItemKind> kinds = {};
  bool private_addresses = false;  // also IP addresses that are not public
};

class ItemFinder {
 public:
  explicit ItemFinder(const FindOptions& options);
  ~ItemFinder();
  ItemFinder(const ItemFinder&) = delete;
  ItemFinder& operator=(const ItemFinder&) = delete;
  // items: replaced; sorted, without overlaps.
  void find(std::string_view text, std::vector<Item>& items) const;

 private:
  struct Patterns;
  std::array<bool, kItemKinds> wanted_ = {};
  std::array<uint8_t, 256> triggers_ = {};
  bool private_addresses_ = false;
  std::unique_ptr<Patterns> patterns_;
};

}  // namespace athanor::corpus::privacy

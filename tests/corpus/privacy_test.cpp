// Personal data is found, its look-alikes are not, and the rest of a text stays.
#include "athanor/corpus/privacy/privacy.h"

#include <fmt/core.h>

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <random>

#include "athanor/base/error.h"
#include "athanor/corpus/privacy/find_items.h"

namespace athanor::tests::privacy_test {
namespace {

using corpus::privacy::all_item_kinds;
using corpus::privacy::Item;
using corpus::privacy::item_kind_name;
using corpus::privacy::ItemFinder;

// "kind:text" of each item found.
std::vector<std::string> found_in(const std::string& text, bool private_addresses = false) {
  static const ItemFinder public_only({.kinds = all_item_kinds()});
  static const ItemFinder all({.kinds = all_item_kinds(), .private_addresses = true});
  const ItemFinder& finder = private_addresses ? all : public_only;
  std::vector<Item> items;
  finder.find(text, items);
  std::vector<std::string> out;
  for (const Item& item : items)
    out.push_back(std::string(item_kind_name(item.kind)) + ":" +
                  text.substr(item.begin, item.end - item.begin));
  return out;
}

using Found = std::vector<std::string>;

// A source of planted items that shares no code with the matcher.
class Maker {
 public:
  explicit Maker(uint64_t seed) : bits_(seed) {}
  int64_t number(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(bits_() % static_cast<uint64_t>(high - low + 1));
  }
  std::string digits(int count) { return letters("0123456789", count); }
  std::string letters(const std::string& alphabet, int count) {
    std::string out;
    for (int i = 0; i < count; ++i)
      out += alphabet[static_cast<size_t>(number(0, static_cast<int64_t>(alphabet.size()) - 1))];
    return out;
  }
  std::string one(const std::vector<std::string>& choices) {
    return choices[static_cast<size_t>(number(0, static_cast<int64_t>(choices.size()) - 1))];
  }

  std::string email() {
    return one({"john.smith", "li", "zhang_wei", "sales+eu", "x-ray", "o'neil", "wang1988"}) +
           digits(number(0, 1) ? 2 : 0) + "@" +
           one({"example.org", "mail.example.co.uk", "qq.com", "163.com", "uni-bonn.de", "a.io"});
  }
  std::string phone() {
    const std::string three = std::to_string(number(200, 999)), other = std::to_string(number(200, 999)),
                      four = digits(4);
    const std::string mobile = one({"130", "138", "147", "150", "159", "166", "173", "188", "199"});
    const std::string local = std::to_string(number(2, 8)) + digits(3);
    switch (number(0, 11)) {
      case 0:
        return "(" + three + ") " + other + "-" + four;
      case 1:
        return three + "-" + other + "-" + four;
      case 2:
        return "1-" + three + "-" + other + "-" + four;
      case 3:
        return three + "." + other + "." + four;
      case 4:
        return "+1 " + three + " " + other + " " + four;
      case 5:
        return "+44 20 " + local + " " + four;
      case 6:
        return "+49" + std::to_string(number(100, 999)) + digits(7);
      case 7:
        return mobile + digits(8);
      case 8:
        return mobile + "-" + digits(4) + "-" + digits(4);
      case 9:
        return "+86 " + mobile + " " + digits(4) + " " + digits(4);
      case 10:
        return one({"010", "021", "0755", "0571"}) + "-" + local + four;
      default:
        return "（" + one({"010", "0755"}) + "）" + local + four;
    }
  }
  std::string ipv4() {
    return one({"8", "93", "114", "223"}) + "." + std::to_string(number(0, 255)) + "." +
           std::to_string(number(0, 255)) + "." + std::to_string(number(1, 254));
  }
  std::string ipv6() {
    return number(0, 1)
               ? "2606:4700:" + letters("123456789abcdef", 4) + "::" + letters("123456789", 3)
               : "2400:cb00:1:2:3:" + letters("123456789abcdef", 2) + ":5:" + letters("123456789abcdef", 4);
  }
  std::string id_card() {
    std::string body = one({"110101", "440305", "310115", "510104"}) + std::to_string(number(1940, 2015)) +
                       one({"0115", "0731", "1130", "1209"}) + digits(3);
    // The check place brings sum(2^(17 - i) * digit i) to 1 modulo 11.
    int64_t sum = 0;
    for (size_t i = 0; i < 17; ++i) sum += (body[i] - '0') * (int64_t{1} << (17 - i));
    for (int64_t check = 0; check < 11; ++check)
      if ((sum + check) % 11 == 1) return body + (check == 10 ? "X" : std::to_string(check));
    return body;
  }
  std::string bank_card() {
    struct Shape {
      std::string head;
      size_t length;
    };
    const std::vector<Shape> shapes = {{"4", 16},    {"52", 16},   {"37", 15},  {"622202", 19},
                                       {"6217", 16}, {"3530", 16}, {"6011", 16}};
    const Shape& shape = shapes[static_cast<size_t>(number(0, 6))];
    std::string body = shape.head + digits(static_cast<int>(shape.length - shape.head.size()) - 1);
    for (char check = '0'; check <= '9'; ++check) {
      std::string card = body + check;
      int sum = 0;
      for (size_t i = 0; i < card.size(); ++i) {
        const int digit = card[card.size() - 1 - i] - '0';
        sum += i % 2 == 0 ? digit : digit * 2 / 10 + digit * 2 % 10;
      }
      if (sum % 10 != 0) continue;
      if (card.size() != 16 || number(0, 1) == 0) return card;
      return card.substr(0, 4) + " " + card.substr(4, 4) + " " + card.substr(8, 4) + " " + card.substr(12);
    }
    return body;
  }
  std::string iban() {
    const std::string country = one({"DE", "NL", "GB", "FR"});
    const std::string account = country == "DE"   ? digits(18)
                                : country == "NL" ? "ABNA" + digits(10)
                                : country == "GB" ? "WEST" + digits(14)
                                                  : digits(23);
    std::string numbers;
    for (const char c : account + country + "00")
      numbers += c >= 'A' ? std::to_string(c - 'A' + 10) : std::string(1, c);
    int remainder = 0;
    for (const char c : numbers) remainder = (remainder * 10 + c - '0') % 97;
    std::string whole =
        country +
        (98 - remainder < 10 ? "0" + std::to_string(98 - remainder) : std::to_string(98 - remainder)) +
        account;
    if (number(0, 1) == 0) return whole;
    std::string grouped;
    for (size_t i = 0; i < whole.size(); ++i)
      grouped += (i > 0 && i % 4 == 0 ? " " : "") + whole.substr(i, 1);
    return grouped;
  }
  std::string secret() {
    const std::string word = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
    switch (number(0, 3)) {
      case 0:
        return "AKIA" + letters("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", 16);
      case 1:
        return "ghp_" + letters(word, 36);
      case 2:
        return "eyJ" + letters(word, 20) + ".eyJ" + letters(word, 60) + "." + letters(word, 43);
      default:
        return "-----BEGIN RSA PRIVATE KEY-----\n" + letters(word, 64) + "\n" + letters(word, 64) +
               "\n-----END RSA PRIVATE KEY-----";
    }
  }

  // What has the looks of an item and is none.
  std::string look_alike() {
    const auto small = [&] { return std::to_string(number(0, 30)); };
    switch (number(0, 15)) {
      case 0:
        return one({"version ", "v", "Version: ", "版本 ", "版本号：", "release "}) + small() + "." +
               small() + "." + small() + "." + small();
      case 1:
        return one({"Chrome/", "lib-", "tool_"}) + small() + "." + small() + "." + small() + "." + small();
      case 2:
        return "ISBN 978-" + digits(1) + "-" + digits(3) + "-" + digits(5) + "-" + digits(1);
      case 3:
        return "978" + digits(10);
      case 4:
        return letters("0123456789abcdef", 40);
      case 5:
        return "commit " + letters("0123456789abcdef", 7) + letters("abcdef", 1);
      case 6:
        return "17" + digits(8);
      case 7:
        return "17" + digits(11);
      case 8:
        return "2023-" + std::to_string(number(10, 12)) + "-" + std::to_string(number(10, 28)) + " 1" +
               digits(1) + ":30:" + "2" + digits(1);
      case 9:
        return "2024" + std::to_string(number(10, 12)) + std::to_string(number(10, 28)) + "1" + digits(1) +
               "3030";
      case 10:
        return one({"$", "¥", "€", "US$ "}) + std::to_string(number(1, 999)) + "," + digits(3) + "," +
               digits(3) + ".00";
      case 11:
        return std::to_string(number(1, 99999)) + digits(6) + "元";
      case 12:
        return "doi:10." + digits(4) + "/" + letters("abcdefgh", 3) + "." +
               std::to_string(number(2000, 2023)) + "." + digits(6);
      case 13:
        return "MD5 " + letters("0123456789abcdef", 32);
      case 14:
        return one({"3.", "0.", "2."}) + digits(static_cast<int>(number(8, 18)));
      default:
        return digits(static_cast<int>(number(22, 30)));
    }
  }
  std::string around(const std::string& item) {
    return one({"Please note " + item + " for later use.", "He wrote: " + item + ", and left.",
                "我的信息是" + item + "，请保存。", "请联系：" + item + "。谢谢", "see (" + item + ") here",
                item, "first line\n" + item + "\nlast line"});
  }

 private:
  std::mt19937_64 bits_;
};

TEST(PrivacyItems, TwoThousandPlantedAreFound) {
  Maker maker(11);
  const std::vector<std::pair<std::string, std::function<std::string()>>> kinds = {
      {"email", [&] { return maker.email(); }},     {"phone", [&] { return maker.phone(); }},
      {"ipv4", [&] { return maker.ipv4(); }},       {"ipv6", [&] { return maker.ipv6(); }},
      {"id_card", [&] { return maker.id_card(); }}, {"bank_card", [&] { return maker.bank_card(); }},
      {"iban", [&] { return maker.iban(); }},       {"secret", [&] { return maker.secret(); }}};
  int found = 0;
  std::string missed;
  for (int i = 0; i < 2000; ++i) {
    const auto& [kind, make] = kinds[static_cast<size_t>(i) % kinds.size()];
    const std::string item = make(), text = maker.around(item);
    if (found_in(text) == Found{fmt::format("{}:{}", kind, item)})
      ++found;
    else
      missed += fmt::format("{} {} | {}\n", kind, item, text);
  }
  EXPECT_GE(found, 1960) << missed;
  RecordProperty("found", found);
}

TEST(PrivacyItems, OfTwoThousandLookAlikesHardlyAnyIsTaken) {
  Maker maker(12);
  int taken = 0;
  std::string wrong;
  for (int i = 0; i < 2000; ++i) {
    const std::string text = maker.around(maker.look_alike());
    for (const std::string& item : found_in(text)) wrong += fmt::format("{} | {}\n", item, text);
    taken += found_in(text).empty() ? 0 : 1;
  }
  EXPECT_LE(taken, 20) << wrong;
  RecordProperty("taken", taken);
}

TEST(PrivacyItems, ChecksumsDecide) {
  EXPECT_EQ(found_in("卡 4111 1111 1111 1111"), Found{"bank_card:4111 1111 1111 1111"});
  EXPECT_EQ(found_in("卡 4111 1111 1111 1112"), Found{});
  EXPECT_EQ(found_in("DE89370400440532013000"), Found{"iban:DE89370400440532013000"});
  EXPECT_EQ(found_in("DE88370400440532013000"), Found{});
  EXPECT_EQ(found_in("身份证11010519491231002X号"), Found{"id_card:11010519491231002X"});
  EXPECT_EQ(found_in("身份证110105194912310021号"), Found{});
  EXPECT_EQ(found_in("11010519491331002X"), Found{});  // month 13
}

TEST(PrivacyItems, AddressesArePublicOnesByDefault) {
  EXPECT_EQ(found_in("8.8.8.8 and 192.168.1.1, 10.0.0.1, 172.16.0.1, 172.32.0.1"),
            (Found{"ipv4:8.8.8.8", "ipv4:172.32.0.1"}));
  EXPECT_EQ(found_in("192.168.1.1 fe80::1", true), (Found{"ipv4:192.168.1.1", "ipv6:fe80::1"}));
  EXPECT_EQ(found_in("2001:db8::1 2001:4860:4860::8888"), Found{"ipv6:2001:4860:4860::8888"});
  EXPECT_EQ(found_in("256.8.8.8 8.8.8 8.8.8.8.8 v8.8.8.8 at 12:34:56"), Found{});
}

TEST(PrivacyItems, AnEmailIsNotAFileAndNotARepository) {
  EXPECT_EQ(found_in("logo@2x.png git@host.org:a/b lodash@4.17.21 a..b@c.de @home"), Found{});
  EXPECT_EQ(found_in("邮箱zhang@163.com。"), Found{"email:zhang@163.com"});
  EXPECT_EQ(found_in("<A.B@Example.ORG>."), Found{"email:A.B@Example.ORG"});
  EXPECT_EQ(found_in(std::string(64, 'a') + "@b.de").size(), 1U);
  EXPECT_EQ(found_in(std::string(65, 'a') + "@b.de"), Found{});
}

TEST(PrivacyItems, APhoneIsNotPartOfALongerNumber) {
  EXPECT_EQ(found_in("12-415-555-2671"), Found{});
  EXPECT_EQ(found_in("415-555-2671-99"), Found{});
  EXPECT_EQ(found_in("订单号 13812345678"), Found{});
  EXPECT_EQ(found_in("id139123456789 113812345678"), Found{});
  EXPECT_EQ(found_in("200 300 4000 and 252.227-7013"), Found{});
  EXPECT_EQ(found_in("tel 200 300 4000"), Found{"phone:200 300 4000"});
  EXPECT_EQ(found_in("电话：4155552671"), Found{"phone:4155552671"});
  EXPECT_EQ(found_in("4155552671"), Found{});
}

TEST(PrivacyItems, OfAnAssignmentTheValueIsTaken) {
  EXPECT_EQ(found_in("API_KEY = \"q8Zr2LpX9vTnB4sW\""), Found{"secret:q8Zr2LpX9vTnB4sW"});
  EXPECT_EQ(found_in("{\"client_secret\": \"q8Zr2LpX9vTnB4sW\"}"), Found{"secret:q8Zr2LpX9vTnB4sW"});
  EXPECT_EQ(found_in("api_key = load_key_from_settings_file()"), Found{});
  EXPECT_EQ(found_in("monkey = q8Zr2LpX9vTnB4sW"), Found{});
  EXPECT_EQ(found_in("password = q8Zr2Lp"), Found{});
}

TEST(PrivacyItems, OverlapsGiveTheLeftmostAndLongest) {
  EXPECT_EQ(found_in("13812345678@qq.com"), Found{"email:13812345678@qq.com"});
  EXPECT_EQ(found_in("token = ghp_0123456789abcdefghijABCDEFGHIJ012345"),
            Found{"secret:ghp_0123456789abcdefghijABCDEFGHIJ012345"});
}

TEST(PrivacyItems, OddTextsDoNotCrash) {
  for (const std::string text :
       {"", "@", "1", "+", ":", "-----BEGIN PRIVATE KEY-----", "\xff@\xff", "eyJ", "_", "（", "a@", "@b.de"})
    found_in(text);
  EXPECT_EQ(found_in(std::string("a\0b@c.de", 8)), Found{"email:b@c.de"});
  for (const std::string piece :
       {"1 ", "@", ":", "eyJaaaaaaaaaa.", "-", "-----BEGIN PRIVATE KEY-----", "a@", "1-", "key=", "+1("}) {
    std::string text;
    while (text.size() < 200000) text += piece;
    found_in(text);
  }
}

std::string after(const corpus::privacy::PrivacyOptions& options, const std::string& text,
                  std::vector<double>* scores = nullptr) {
  const auto stage = corpus::privacy::make_privacy(options);
  corpus::Document document{.text = text};
  std::vector<double> values(stage->scores().size(), std::numeric_limits<double>::quiet_NaN());
  stage->annotate(document, values);
  if (scores != nullptr) *scores = values;
  return document.text;
}

TEST(PrivacyStage, ReplacesAndKeepsTheRest) {
  std::vector<double> scores;
  EXPECT_EQ(after({}, "é a@b.de, 我 8.8.8.8。", &scores), "é <EMAIL>, 我 <IPV4>。");
  EXPECT_EQ(scores, (std::vector<double>{2, 0, 1, 0, 0, 0, 0, 1, 0}));
  EXPECT_EQ(after({.tags = {"email=[mail]"}}, "a@b.de"), "[mail]");
  EXPECT_EQ(after({.kinds = {"phone"}}, "a@b.de"), "a@b.de");
}

TEST(PrivacyStage, HashesWithASalt) {
  // printf 'saltya@b.de' | sha256sum
  EXPECT_EQ(after({.action = "hash", .salt = "salty"}, "x a@b.de"), "x <EMAIL:fa342445ba806c06>");
  EXPECT_NE(after({.action = "hash", .salt = "other"}, "a@b.de"),
            after({.action = "hash", .salt = "salty"}, "a@b.de"));
}

TEST(PrivacyStage, DropsAboveMost) {
  const auto stage = corpus::privacy::make_privacy({.action = "drop", .most = 1});
  std::vector<double> values(stage->scores().size());
  corpus::Document one{.text = "a@b.de"}, two{.text = "a@b.de b@b.de"};
  stage->annotate(one, values);
  EXPECT_EQ(first_broken(stage->rules(), values), nullptr);
  stage->annotate(two, values);
  ASSERT_NE(first_broken(stage->rules(), values), nullptr);
  EXPECT_EQ(first_broken(stage->rules(), values)->name, "privacy.items");
  EXPECT_EQ(two.text, "a@b.de b@b.de");
}

TEST(PrivacyStage, RefusesUnknownSettings) {
  EXPECT_THROW(after({.kinds = {"mail"}}, ""), ConfigError);
  EXPECT_THROW(after({.action = "mask"}, ""), ConfigError);
  EXPECT_THROW(after({.tags = {"email"}}, ""), ConfigError);
  EXPECT_EQ(corpus::privacy::privacy_fields().size(), 6U);
}

}  // namespace
}  // namespace athanor::tests::privacy_test

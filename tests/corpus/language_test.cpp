#include "athanor/corpus/language/language.h"

#include <fasttext/fasttext.h>
#include <fmt/core.h>
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <sstream>

#include "athanor/base/error.h"
#include "athanor/base/file.h"
#include "athanor/corpus/classifier/fasttext_model.h"
#include "support/temporary_folder.h"

namespace athanor::tests::language_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Paragraphs of ten languages, each on the same three subjects.
const std::map<std::string, std::vector<std::string>>& paragraphs() {
  static const std::map<std::string, std::vector<std::string>> texts = {
      {"en",
       {"The furnace holds a steady heat for weeks. Whoever looks after it has little to do but must never "
        "sleep for "
        "long, since a fire that has gone out ruins everything that was in the pot.",
        "Last summer we walked along the river until the village was out of sight. My sister had packed "
        "bread and "
        "cheese, and we ate both under an old oak while it began to rain.",
        "A library opens a file, reads what it needs and closes the file again. If the disk is full, the "
        "program says "
        "so and leaves the old version as it was."}},
      {"de",
       {"Der Ofen hält die Hitze wochenlang. Wer auf ihn achtet, hat wenig zu tun, darf aber nie lange "
        "schlafen, denn "
        "ein erloschenes Feuer verdirbt alles, was im Topf war.",
        "Letzten Sommer gingen wir am Fluss entlang, bis das Dorf nicht mehr zu sehen war. Meine Schwester "
        "hatte Brot "
        "und Käse eingepackt, und wir aßen beides unter einer alten Eiche, während es zu regnen begann.",
        "Eine Bibliothek öffnet eine Datei, liest, was sie braucht, und schließt die Datei wieder. Ist die "
        "Platte voll, "
        "so sagt das Programm es und lässt die alte Fassung, wie sie war."}},
      {"fr",
       {"Le four garde une chaleur égale pendant des semaines. Celui qui le surveille a peu à faire, mais il "
        "ne doit "
        "jamais dormir longtemps, car un feu éteint gâte tout ce qui était dans le pot.",
        "L'été dernier, nous avons marché le long de la rivière jusqu'à ne plus voir le village. Ma sœur "
        "avait emporté "
        "du pain et du fromage, que nous avons mangés sous un vieux chêne quand il commença à pleuvoir.",
        "Une bibliothèque ouvre un fichier, lit ce dont elle a besoin et le referme. Si le disque est plein, "
        "le "
        "programme le dit et laisse l'ancienne version telle qu'elle était."}},
      {"es",
       {"El horno guarda un calor constante durante semanas. Quien lo cuida tiene poco que hacer, pero nunca "
        "debe "
        "dormir mucho tiempo, porque un fuego apagado echa a perder todo lo que había en la olla.",
        "El verano pasado caminamos junto al río hasta que dejamos de ver el pueblo. Mi hermana había "
        "llevado pan y "
        "queso, y comimos las dos cosas bajo un viejo roble mientras empezaba a llover.",
        "Una biblioteca abre un archivo, lee lo que necesita y lo vuelve a cerrar. Si el disco está lleno, "
        "el programa "
        "lo dice y deja la versión antigua como estaba."}},
      {"it",
       {"Il forno mantiene un calore costante per settimane. Chi lo sorveglia ha poco da fare, ma non deve "
        "mai dormire "
        "a lungo, perché un fuoco spento rovina tutto quello che c'era nella pentola.",
        "L'estate scorsa abbiamo camminato lungo il fiume finché il paese non si vedeva più. Mia sorella "
        "aveva portato "
        "pane e formaggio, e li abbiamo mangiati sotto una vecchia quercia mentre cominciava a piovere.",
        "Una libreria apre un file, legge ciò di cui ha bisogno e lo richiude. Se il disco è pieno, il "
        "programma lo "
        "dice e lascia la vecchia versione com'era."}},
      {"pl",
       {"Piec utrzymuje równe ciepło przez całe tygodnie. Kto go pilnuje, ma niewiele do zrobienia, ale "
        "nigdy nie może "
        "długo spać, bo wygasły ogień psuje wszystko, co było w garnku.",
        "Zeszłego lata szliśmy wzdłuż rzeki, aż wieś zniknęła nam z oczu. Moja siostra spakowała chleb i "
        "ser, a my "
        "zjedliśmy jedno i drugie pod starym dębem, kiedy zaczynało padać.",
        "Biblioteka otwiera plik, czyta to, czego potrzebuje, i zamyka go z powrotem. Jeśli dysk jest pełny, "
        "program o "
        "tym mówi i zostawia starą wersję taką, jaka była."}},
      {"nl",
       {"De oven houdt wekenlang een gelijkmatige hitte vast. Wie erop let heeft weinig te doen, maar mag "
        "nooit lang "
        "slapen, want een gedoofd vuur bederft alles wat in de pot zat.",
        "Vorige zomer liepen we langs de rivier tot het dorp niet meer te zien was. Mijn zus had brood en "
        "kaas "
        "ingepakt, en we aten allebei onder een oude eik terwijl het begon te regenen.",
        "Een bibliotheek opent een bestand, leest wat zij nodig heeft en sluit het weer. Als de schijf vol "
        "is, zegt "
        "het programma dat en laat het de oude versie zoals die was."}},
      {"ru",
       {"Печь неделями держит ровный жар. Тому, кто за ней следит, почти нечего делать, но долго спать ему "
        "нельзя: "
        "погасший огонь портит всё, что было в горшке.",
        "Прошлым летом мы шли вдоль реки, пока деревня не скрылась из виду. Сестра взяла с собой хлеб и сыр, "
        "и мы "
        "съели их под старым дубом, когда начинался дождь.",
        "Библиотека открывает файл, читает то, что ей нужно, и снова закрывает его. Если диск заполнен, "
        "программа "
        "сообщает об этом и оставляет старую версию такой, какой она была."}},
      {"zh",
       {"炉子能够连续几个星期保持稳定的温度。看守它的人没有多少事情可做,但是不能睡得太久,因为火一旦熄灭,"
        "锅里的东西就全都毁了。",
        "去年夏天我们沿着河边一直走,直到看不见村子为止。妹妹带了面包和奶酪,我们坐在一棵老橡树下吃,"
        "这时候开始下雨了。",
        "程序库打开一个文件,读取它所需要的内容,然后再把文件关上。如果磁盘已经满了,程序会说明情况,"
        "并且保留原来的版本。"}},
      {"ja",
       {"炉は何週間も一定の熱を保つ。見張る人にはあまり仕事がないが、長く眠ってはならない。火が消えると、鍋の"
        "中のものがすべて台無しになるからだ。",
        "去年の夏、私たちは村が見えなくなるまで川沿いを歩いた。妹がパンとチーズを持ってきてくれたので、雨が降"
        "り始めるころ、古い樫の木の下で食べた。",
        "ライブラリはファイルを開き、必要なものを読み、またファイルを閉じる。ディスクがいっぱいなら、プログラ"
        "ムはそう伝え、古い版をそのまま残す。"}},
  };
  return texts;
}

std::vector<double> scores_of(const Stage& stage, std::string text) {
  Document document{.id = "x", .text = std::move(text)};
  std::vector<double> values(stage.scores().size(), -1.0);
  stage.annotate(document, values);
  return values;
}

bool keeps(const Stage& stage, const std::string& text) {
  return first_broken(stage.rules(), scores_of(stage, text)) == nullptr;
}

std::pair<std::string, std::string> refusal(const LanguageOptions& options) {
  try {
    make_language(options);
  } catch (const ConfigError& error) {
    return {error.what(), error.hint()};
  }
  return {};
}

TEST(LanguageTest, KeepsParagraphsOfItsLanguageAndNoOthers) {
  for (const auto& [wanted, unused] : paragraphs()) {
    const auto stage = make_language({.keep = {wanted}});
    for (const auto& [code, texts] : paragraphs())
      for (const std::string& text : texts)
        EXPECT_EQ(keeps(*stage, text), code == wanted) << code << ": " << text;
  }
}

TEST(LanguageTest, NamesTheLanguageOfAParagraph) {
  for (const auto& [code, texts] : paragraphs())
    for (const std::string& text : texts) EXPECT_EQ(language_of(text), code) << text;
  EXPECT_EQ(language_of(""), "und");
  EXPECT_EQ(language_of("12 345 678 --- 9"), "und");
}

// A page of German prose that quotes more English than it has German, and an English one that quotes a German sentence.
TEST(Language, EnglishThatIsQuotedGivesWay) {
  const std::vector<std::string>& english = paragraphs().at("en");
  const std::vector<std::string>& german = paragraphs().at("de");
  EXPECT_EQ(language_of(english[0] + " " + english[1].substr(0, 100) + " " + german[0]), "de");
  EXPECT_EQ(language_of(english[0] + " " + english[1] + " " + english[2] + " " + german[0].substr(0, 90)),
            "en");
}

TEST(LanguageTest, AScoreIsThePartOfTheTextInThatLanguage) {
  const auto stage = make_language({.keep = {"de", "ru"}, .least = 0.5});
  ASSERT_EQ(stage->scores().size(), 3u);
  EXPECT_EQ(stage->scores()[0].name, "language.kept");
  EXPECT_EQ(stage->scores()[1].name, "language.de");
  EXPECT_EQ(stage->scores()[2].name, "language.ru");
  std::string german, mixed;
  for (int i = 0; i < 3; ++i)
    for (const std::string& text : paragraphs().at("de")) german += text + "\n";
  mixed = german;
  for (int i = 0; i < 3; ++i)
    for (const std::string& text : paragraphs().at("fr")) mixed += text + "\n";
  EXPECT_GE(scores_of(*stage, german)[1], 0.99);
  const std::vector<double> half = scores_of(*stage, mixed);
  EXPECT_NEAR(half[1], 0.5, 0.06);
  EXPECT_EQ(half[2], 0.0);
  EXPECT_EQ(half[0], half[1] + half[2]);
}

TEST(LanguageTest, TheRuleKeepsWhatIsAtItsThreshold) {
  const auto stage = make_language({.keep = {"en"}, .least = 0.65});
  ASSERT_EQ(stage->rules().size(), 1u);
  const Rule& rule = stage->rules()[0];
  EXPECT_EQ(rule.name, "language.kept");
  EXPECT_FALSE(rule.broken_by(std::vector<double>{0.65, 0.65}));
  EXPECT_FALSE(rule.broken_by(std::vector<double>{0.66, 0.66}));
  EXPECT_TRUE(rule.broken_by(std::vector<double>{0.64, 0.64}));
}

TEST(LanguageTest, ChineseIsBothScriptsUnlessOneIsNamed) {
  const std::string traditional =
      "爐子能夠連續幾個星期保持穩定的溫度。看守它的人沒有多少事情可做,但是不能睡得太久,因為火一旦熄滅,"
      "鍋裡的東西就全都毀了。"
      "去年夏天我們沿著河邊一直走,直到看不見村子為止。";
  const std::string& simplified = paragraphs().at("zh")[0];
  EXPECT_TRUE(keeps(*make_language({.keep = {"zh"}}), traditional));
  EXPECT_TRUE(keeps(*make_language({.keep = {"zh-Hant"}}), traditional));
  EXPECT_FALSE(keeps(*make_language({.keep = {"zh-Hans"}}), traditional));
  EXPECT_TRUE(keeps(*make_language({.keep = {"zh"}}), simplified));
  EXPECT_FALSE(keeps(*make_language({.keep = {"zh-Hant"}}), simplified));
  EXPECT_TRUE(keeps(*make_language({.keep = {"zh-Hans"}}), simplified));
  const auto both = make_language({.keep = {"zh", "zh-Hant"}});
  const std::vector<double> values = scores_of(*both, traditional + "\n" + paragraphs().at("en")[0]);
  EXPECT_LT(values[1], 0.9);
  EXPECT_EQ(values[0], values[1]);  // counted once
}

TEST(LanguageTest, OddTextHasScoresToo) {
  const auto stage = make_language({.keep = {"en"}});
  EXPECT_EQ(scores_of(*stage, "")[0], 0.0);
  EXPECT_EQ(scores_of(*stage, "x")[0], 0.0);
  EXPECT_EQ(scores_of(*stage, "\xFF\xFE\x80 1234")[0], 0.0);
  EXPECT_EQ(scores_of(*stage, std::string(1000, '\0'))[0], 0.0);
  const std::string english = paragraphs().at("en")[0] + paragraphs().at("en")[1];
  for (const std::string& odd : {std::string(1, '\0'), std::string("\xFF"), std::string("\x07"),
                                 std::string("\xEF\xBF\xBF"), std::string("\xE2\x82")})
    EXPECT_GE(scores_of(*stage, fmt::format("{0}{1}{0}{1}", english, odd))[0], 0.95);
}

TEST(LanguageTest, ALongDocumentIsJudgedInPieces) {
  const auto stage = make_language({.keep = {"en", "zh"}});
  std::string text;
  while (text.size() < (size_t{3} << 20)) text += paragraphs().at("en")[text.size() % 3] + " ";
  const size_t english = text.size();
  while (text.size() < 2 * english)
    text += paragraphs().at("zh")[text.size() % 3];  // no space to end a piece at
  const std::vector<double> values = scores_of(*stage, text);
  EXPECT_NEAR(values[1], 0.5, 0.1);  // CLD2 counts bytes of letters: Chinese has no spaces
  EXPECT_NEAR(values[2], 0.5, 0.1);
  EXPECT_NEAR(values[0], 1.0, 0.02);
  EXPECT_LE(values[0], 1.0);
}

TEST(LanguageTest, RefusesCodesByNameWithTheNearest) {
  const auto [what, hint] = refusal({.keep = {"en", "EN"}});
  EXPECT_THAT(what, AllOf(HasSubstr("language.keep"), HasSubstr("\"EN\"")));
  EXPECT_THAT(refusal({.keep = {"zh-Hamt"}}).second, HasSubstr("zh-Hant"));
  EXPECT_THAT(refusal({.keep = {"de", "de"}}).first, HasSubstr("twice"));
  EXPECT_THAT(refusal({.keep = {}}).first, HasSubstr("language.keep"));
  EXPECT_THAT(refusal({.keep = {"en"}, .least = 1.5}).first, HasSubstr("language.least: got 1.5"));
  EXPECT_EQ(refusal({.keep = {"he", "iw", "nb", "fil", "jv"}}).first, "");
}

TEST(LanguageTest, ItsFieldsReachItsOptions) {
  LanguageOptions options;
  std::vector<std::string> names;
  for (const auto& field : language_fields()) {
    names.push_back(field.name);
    config::Slot slot = field.slot(options);
    if (auto** list = std::get_if<std::vector<std::string>*>(&slot)) **list = {"pl"};
    if (auto** number = std::get_if<double*>(&slot)) **number = 0.25;
    if (auto** text = std::get_if<std::string*>(&slot)) **text = "m.bin";
  }
  EXPECT_THAT(names, ::testing::ElementsAre("keep", "least", "model"));
  EXPECT_EQ(options.keep, std::vector<std::string>{"pl"});
  EXPECT_EQ(options.least, 0.25);
  EXPECT_EQ(options.model, "m.bin");
}

// A model of four languages that libfasttext itself has trained on the paragraphs.
std::string train_fasttext(const TemporaryFolder& folder, bool quantize) {
  std::ofstream file(folder.path("train.txt"));
  for (const char* code : {"en", "de", "fr", "ru"})
    for (const std::string& text : paragraphs().at(code)) {
      std::istringstream words(text);
      std::string word;
      file << "__label__" << code;
      while (words >> word) file << ' ' << word;
      file << '\n';
    }
  file.close();
  fasttext::Args args;
  args.model = fasttext::model_name::sup;
  args.loss = fasttext::loss_name::softmax;
  args.input = folder.path("train.txt");
  args.minCount = 1;
  args.minn = 2;
  args.maxn = 4;
  args.dim = 16;
  args.lr = 1.0;
  args.epoch = 300;
  args.bucket = 2000;
  args.thread = 1;
  args.verbose = 0;
  fasttext::FastText model;
  model.train(args);
  if (quantize) {
    args.qnorm = true;
    args.dsub = 2;
    args.cutoff = 300;
    model.quantize(args);
  }
  std::string path = folder.path(quantize ? "model.ftz" : "model.bin");
  model.saveModel(path);
  return path;
}

TEST(LanguageTest, TakesAModelOfFastText) {
  const TemporaryFolder folder;
  const std::string path = train_fasttext(folder, false);
  const auto stage = make_language({.keep = {"de", "ru"}, .model = path});
  EXPECT_TRUE(keeps(*stage, paragraphs().at("de")[0] + "\n" + paragraphs().at("de")[1]));
  EXPECT_TRUE(keeps(*stage, paragraphs().at("ru")[0]));
  EXPECT_FALSE(keeps(*stage, paragraphs().at("fr")[2]));
  EXPECT_LE(scores_of(*stage, paragraphs().at("ru")[0])[0], 1.0);
  EXPECT_THAT(refusal({.keep = {"pl"}, .model = path}).first, HasSubstr("\"pl\""));
}

// What libfasttext's own predict says of a line.
std::map<std::string, double> predict_line(const std::string& path, const std::string& line) {
  fasttext::FastText model;
  model.loadModel(path);
  std::istringstream in(line + "\n");
  std::vector<std::pair<fasttext::real, std::string>> predictions;
  model.predictLine(in, predictions, 100, 0.0F);
  std::map<std::string, double> probabilities;
  for (const auto& [probability, label] : predictions)
    probabilities[label.substr(9)] = static_cast<double>(probability);
  return probabilities;
}

TEST(FastTextModelTest, GivesTheProbabilitiesOfLibfasttext) {
  const TemporaryFolder folder;
  for (const bool quantized : {false, true}) {
    const std::string path = train_fasttext(folder, quantized);
    const FastTextModel model(path);
    ASSERT_EQ(model.labels().size(), 4u);
    for (const char* code : {"en", "de", "pl", "zh"})
      for (const std::string& text : paragraphs().at(code)) {
        std::vector<double> got(4);
        ASSERT_TRUE(model.predict(text, got));
        const std::map<std::string, double> expected = predict_line(path, text);
        for (size_t i = 0; i < 4; ++i)
          EXPECT_NEAR(got[i], expected.at(model.labels()[i]), 1e-5) << quantized << ' ' << text;
      }
    std::vector<double> one_line(4), two_lines(4), none(4);
    model.predict("der Ofen hält", one_line);
    model.predict("der\nOfen\nhält", two_lines);
    EXPECT_EQ(one_line, two_lines);
    model.predict("", none);
  }
}

TEST(FastTextModelTest, RefusesDamagedFilesByName) {
  const TemporaryFolder folder;
  const std::string damaged = folder.path("damaged.bin");
  const auto refused = [&](const std::string& bytes) {
    std::ofstream(damaged, std::ios::binary) << bytes;
    try {
      FastTextModel model(damaged);
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr(damaged));
      return true;
    }
    return false;
  };
  for (const bool quantized : {false, true}) {
    const std::string bytes = system_env().read_text(train_fasttext(folder, quantized));
    EXPECT_FALSE(refused(bytes));
    for (size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 97)
      EXPECT_TRUE(refused(bytes.substr(0, size)));
    EXPECT_TRUE(refused(bytes.substr(0, bytes.size() - 1)));
    EXPECT_TRUE(refused(bytes + "x"));
    for (size_t at = 0; at < 12; ++at) {  // magic, version, dimension
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 0x40);
      EXPECT_TRUE(refused(changed)) << at;
    }
  }
  EXPECT_TRUE(refused("{\"not\": \"a model\"}"));
  EXPECT_THROW(FastTextModel(folder.path("absent.bin")), IoError);
}

}  // namespace
}  // namespace athanor::tests::language_test

#include "athanor/launch/master/journal.h"

#include <fmt/core.h>
#include <sqlite3.h>

#include <cerrno>
#include <utility>
#include <variant>

#include "athanor/base/check.h"

namespace athanor::launch::master {
namespace {

constexpr int kBusyMs = 5'000;
constexpr int64_t kNobody = -1;

// The worker whose progress it is, and of what kind.
int64_t progress_of(const MasterInput& input) {
  const auto* said = std::get_if<WorkerSaid>(&input.what);
  const auto* progress = said == nullptr ? nullptr : std::get_if<control::Progress>(&said->message);
  return progress == nullptr
             ? kNobody
             : int64_t{said->worker} * control::kNumProgressKinds + static_cast<int>(progress->kind);
}

[[noreturn]] void fail_sqlite(const std::string& path, sqlite3* database, int code) {
  const std::string why = database == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(database);
  if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) fail("'{}' is no journal of a master: {}", path, why);
  throw IoError(fmt::format("journal '{}': {}", path, why), EIO);
}

class Statement {
 public:
  Statement(const std::string& path, sqlite3* database, const char* text) : path_(path), database_(database) {
    if (const int code = sqlite3_prepare_v2(database, text, -1, &statement_, nullptr); code != SQLITE_OK)
      fail_sqlite(path_, database_, code);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void bind(int at, int64_t value) { sqlite3_bind_int64(statement_, at, value); }
  void bind(int at, const std::string& text) {
    sqlite3_bind_text(statement_, at, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
  }
  bool step() {  // whether there is a row
    const int code = sqlite3_step(statement_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) fail_sqlite(path_, database_, code);
    return code == SQLITE_ROW;
  }
  int64_t number() const { return sqlite3_column_int64(statement_, 0); }
  std::string text(int column) const {
    const auto* bytes = static_cast<const char*>(sqlite3_column_blob(statement_, column));
    return bytes == nullptr
               ? ""
               : std::string(bytes, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
  }

 private:
  const std::string& path_;
  sqlite3* database_;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace

void Journal::Close::operator()(sqlite3* database) const {
  sqlite3_close(database);
}

Journal::Journal(const std::string& path) : path_(path) {
  sqlite3* database = nullptr;
  const int code =
      sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  database_.reset(database);
  if (code != SQLITE_OK) fail_sqlite(path_, database, code);
  sqlite3_busy_timeout(database, kBusyMs);
  run("PRAGMA journal_mode = WAL");
  run("PRAGMA synchronous = OFF");  // a kill loses nothing that was handed to the system
  run("BEGIN IMMEDIATE");
  run("CREATE TABLE IF NOT EXISTS master (epoch INTEGER NOT NULL)");
  run("CREATE TABLE IF NOT EXISTS inputs (number INTEGER PRIMARY KEY, progress_of INTEGER NOT NULL, input "
      "TEXT "
      "NOT NULL)");
  run("INSERT INTO master SELECT 0 WHERE NOT EXISTS (SELECT * FROM master)");
  run("UPDATE master SET epoch = epoch + 1");
  epoch_ = number("SELECT epoch FROM master");
  size_ = number("SELECT COALESCE(MAX(number), 0) FROM inputs");
  last_other_ = number("SELECT COALESCE(MAX(number), 0) FROM inputs WHERE progress_of < 0");
  run("COMMIT");
}

Journal::~Journal() = default;

void Journal::run(const char* statement) const {
  Statement(path_, database_.get(), statement).step();
}

int64_t Journal::number(const char* query) const {
  Statement statement(path_, database_.get(), query);
  check(statement.step(), "'{}' is no journal of a master", path_);
  return statement.number();
}

std::vector<Journal::Numbered> Journal::numbered_inputs() const {
  std::vector<Numbered> inputs;
  Statement statement(path_, database_.get(), "SELECT number, input FROM inputs ORDER BY number");
  while (statement.step()) inputs.push_back({statement.number(), decode_input(statement.text(1))});
  return inputs;
}

std::vector<MasterInput> Journal::inputs() const {
  std::vector<MasterInput> inputs;
  for (Numbered& one : numbered_inputs()) inputs.push_back(std::move(one.input));
  return inputs;
}

void Journal::append(const MasterInput& input) {
  const std::string text = encode(input);
  const int64_t progress = progress_of(input);
  run("BEGIN IMMEDIATE");
  try {
    const int64_t now = number("SELECT epoch FROM master");
    check(now == epoch_, "journal: the master of epoch {} is fenced: that of epoch {} has taken over", epoch_,
          now);
    if (progress != kNobody) {
      Statement remove(path_, database_.get(), "DELETE FROM inputs WHERE number > ? AND progress_of = ?");
      remove.bind(1, last_other_);
      remove.bind(2, progress);
      remove.step();
    }
    Statement insert(path_, database_.get(), "INSERT INTO inputs VALUES (?, ?, ?)");
    insert.bind(1, size_ + 1);
    insert.bind(2, progress);
    insert.bind(3, text);
    insert.step();
  } catch (...) {
    sqlite3_exec(database_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    throw;
  }
  run("COMMIT");
  ++size_;
  if (progress == kNobody) last_other_ = size_;
}

}  // namespace athanor::launch::master

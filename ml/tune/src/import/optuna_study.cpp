#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/optuna_study.hpp>

#include "import/sqlite.hpp"
#include "run/journal.hpp"
#include "run/json.hpp"
#include "run/sweep_events.hpp"

namespace pharos::ml {
namespace {

constexpr std::string_view kDatabase = "SQLite format 3";  // the first bytes of a file of SQLite
constexpr std::size_t kLineMax = 16 << 20;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// ---- The study as Optuna stores it

enum class State : std::uint8_t { kRunning, kComplete, kPruned, kFailed, kWaiting };

struct Sampled {
  std::string name;
  double number;  // a choice: its index
  std::string distribution;
};

struct StoredTrial {
  State state = State::kRunning;
  std::vector<Sampled> sampled{};
  std::optional<double> value{};
  std::map<std::int64_t, double> reports{};
  std::string begin{};
  std::string end{};
};

struct StoredStudy {
  std::string name;
  bool is_deleted = false;
  std::vector<bool> maximises{};  // by objective
  std::vector<StoredTrial> trials{};
};

Error no_study(const std::filesystem::path& file, std::string what) {
  return {ErrorCode::kCorrupt, file.string() + " is not a study of Optuna: " + std::move(what)};
}

Result<State> state_of(int number) {
  if (number >= 0 && number <= static_cast<int>(State::kWaiting)) return static_cast<State>(number);
  return Error{ErrorCode::kCorrupt, "a trial has state " + std::to_string(number)};
}

Result<std::size_t> choose(const std::filesystem::path& file, const std::vector<StoredStudy>& studies,
                           const std::string& name) {
  std::vector<std::size_t> there;
  std::string names;
  for (std::size_t i = 0; i < studies.size(); ++i) {
    if (studies[i].is_deleted) continue;
    if (studies[i].name == name) return i;
    there.push_back(i);
    names += (names.empty() ? "" : ", ") + studies[i].name;
  }
  if (name.empty() && there.size() == 1) return there.front();
  if (there.empty()) return Error{ErrorCode::kNotFound, "there is no study in " + file.string()};
  return Error{ErrorCode::kNotFound,
               name.empty() ? "there are several studies in " + file.string()
                            : "there is no study \"" + name + "\" in " + file.string(),
               "Name one of these: " + names + '.'};
}

// ---- Optuna's journal: one operation on each line

/// Puts NaN and Infinity into quotes: Python writes them as numbers, and JSON has no such numbers.
std::string with_names(std::string_view line) {
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"NaN", "\"nan\""}, {"-Infinity", "\"-inf\""}, {"Infinity", "\"inf\""}};
  std::string text;
  bool in_text = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const auto* const name = std::find_if(std::begin(kNames), std::end(kNames), [&](const auto& each) {
      return !in_text && line.substr(i).starts_with(each.first);
    });
    if (name != std::end(kNames)) {
      text += name->second;
      i += name->first.size() - 1;
      continue;
    }
    text += line[i];
    if (in_text && line[i] == '\\' && i + 1 < line.size()) {
      text += line[++i];
    } else if (line[i] == '"') {
      in_text = !in_text;
    }
  }
  return text;
}

double number_of(const Json& json) {
  if (json.is_number()) return json.get<double>();
  if (json == "inf") return std::numeric_limits<double>::infinity();
  if (json == "-inf") return -std::numeric_limits<double>::infinity();
  return kNan;
}

std::string text_or_none(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string{};
}

std::optional<double> value_of(const Json& object) {
  for (const char* const key : {"value", "values"}) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) continue;
    if (!found->is_array()) return number_of(*found);
    if (!found->empty()) return number_of(found->front());
  }
  return std::nullopt;
}

class JournalReader {
 public:
  /// May throw what the JSON library throws if a field is missing or has another type.
  Result<void> take(const Json& line) {
    const int operation = line.at("op_code").get<int>();
    switch (operation) {
      case 0: {
        StoredStudy study{.name = line.at("study_name").get<std::string>()};
        for (const Json& each : line.at("directions")) study.maximises.push_back(each.get<int>() == 2);
        studies.push_back(std::move(study));
        return {};
      }
      case 1: studies.at(line.at("study_id").get<std::size_t>()).is_deleted = true; return {};
      case 4: return create(line);
      case 5:
        add_sampled(trial(line), line.at("param_name").get<std::string>(),
                    line.at("param_value_internal").get<double>(), line.at("distribution").get<std::string>());
        return {};
      case 6: {
        StoredTrial& its = trial(line);
        PHAROS_TRY(its.state, state_of(line.at("state").get<int>()));
        its.value = value_of(line);
        if (auto begin = text_or_none(line, "datetime_start"); !begin.empty()) its.begin = std::move(begin);
        its.end = text_or_none(line, "datetime_complete");
        return {};
      }
      case 7:
        trial(line).reports[line.at("step").get<std::int64_t>()] = number_of(line.at("intermediate_value"));
        return {};
      default: return {};  // attributes, which a sweep does not have
    }
  }

  std::vector<StoredStudy> studies;

 private:
  StoredTrial& trial(const Json& line) {
    const auto& [study, number] = trials_.at(line.at("trial_id").get<std::size_t>());
    return studies.at(study).trials.at(number);
  }

  static void add_sampled(StoredTrial& trial, std::string name, double number, std::string distribution) {
    trial.sampled.push_back({std::move(name), number, std::move(distribution)});
  }

  Result<void> create(const Json& line) {
    const auto study = line.at("study_id").get<std::size_t>();
    auto& trials = studies.at(study).trials;
    trials_.emplace_back(study, trials.size());
    StoredTrial its{.value = value_of(line),
                    .begin = text_or_none(line, "datetime_start"),
                    .end = text_or_none(line, "datetime_complete")};
    if (line.contains("state")) {
      PHAROS_TRY(its.state, state_of(line.at("state").get<int>()));
    }
    if (line.contains("params")) {
      for (const auto& [name, number] : line.at("params").items()) {
        add_sampled(its, name, number.get<double>(), line.at("distributions").at(name).get<std::string>());
      }
    }
    if (line.contains("intermediate_values")) {
      for (const auto& [step, value] : line.at("intermediate_values").items()) {
        its.reports[std::stoll(step)] = number_of(value);
      }
    }
    trials.push_back(std::move(its));
    return {};
  }

  std::vector<std::pair<std::size_t, std::size_t>> trials_;  // study and number of each trial, by Optuna's id
};

Result<StoredStudy> read_journal(const std::filesystem::path& file, const std::string& name) {
  std::ifstream input{file, std::ios::binary};
  JournalReader reader;
  std::string line;
  for (std::size_t number = 1; std::getline(input, line); ++number) {
    const auto wrong = [&](const std::string& why) {
      return no_study(file, "line " + std::to_string(number) + ": " + why);
    };
    if (line.size() > kLineMax) return wrong("it is longer than any operation");
    auto json = parse_json(with_names(line), "an operation");
    if (!json && input.eof()) break;  // Optuna is writing this line
    if (!json) return wrong(json.error().message());
    try {
      if (auto taken = reader.take(*json); !taken) return wrong(taken.error().message());
    } catch (const std::exception& why) {
      return wrong(why.what());
    }
  }
  PHAROS_TRY(const std::size_t which, choose(file, reader.studies, name));
  return std::move(reader.studies[which]);
}

// ---- Optuna's database

double number_of(const Sqlite::Row& row, int column, int kind) {
  const std::string its = row.text(kind);
  if (its == "INF_POS") return std::numeric_limits<double>::infinity();
  if (its == "INF_NEG") return -std::numeric_limits<double>::infinity();
  return row.number(column).value_or(kNan);
}

Result<StoredStudy> read_database(const std::filesystem::path& file, const std::string& name) {
  PHAROS_TRY(const Sqlite database, Sqlite::open(file));
  std::vector<StoredStudy> studies;
  std::vector<std::int64_t> ids;
  PHAROS_TRY_VOID(database.each("SELECT study_id, study_name FROM studies ORDER BY study_id", 0, [&](const auto& row) {
    ids.push_back(static_cast<std::int64_t>(row.number(0).value_or(0)));
    studies.push_back({.name = row.text(1)});
  }));
  PHAROS_TRY(const std::size_t which, choose(file, studies, name));
  StoredStudy study = std::move(studies[which]);
  const auto each = [&](const char* query, const auto& take) { return database.each(query, ids[which], take); };
  PHAROS_TRY_VOID(each("SELECT direction FROM study_directions WHERE study_id = ?1 ORDER BY objective",
                       [&](const auto& row) { study.maximises.push_back(row.text(0) == "MAXIMIZE"); }));
  std::map<double, std::size_t> places;  // indices of trials, by Optuna's id
  std::optional<std::string> unknown;
  PHAROS_TRY_VOID(
      each("SELECT trial_id, state, datetime_start, datetime_complete FROM trials WHERE study_id = ?1 ORDER BY number",
           [&](const auto& row) {
             static constexpr std::string_view kStates[] = {"RUNNING", "COMPLETE", "PRUNED", "FAIL", "WAITING"};
             const auto* const found = std::find(std::begin(kStates), std::end(kStates), row.text(1));
             if (found == std::end(kStates)) unknown = row.text(1);
             places.emplace(row.number(0).value_or(0), study.trials.size());
             study.trials.push_back(
                 {.state = static_cast<State>(found - std::begin(kStates)), .begin = row.text(2), .end = row.text(3)});
           }));
  if (unknown) return no_study(file, "a trial's state is " + *unknown);
  const auto trial = [&](const Sqlite::Row& row) -> StoredTrial& {
    return study.trials[places.at(row.number(0).value_or(0))];
  };
  PHAROS_TRY_VOID(
      each("SELECT trial_id, param_name, param_value, distribution_json FROM trial_params JOIN trials USING (trial_id) "
           "WHERE study_id = ?1 ORDER BY param_id",
           [&](const auto& row) {
             trial(row).sampled.push_back({row.text(1), row.number(2).value_or(kNan), row.text(3)});
           }));
  PHAROS_TRY_VOID(
      each("SELECT trial_id, value, value_type FROM trial_values JOIN trials USING (trial_id) WHERE study_id = ?1",
           [&](const auto& row) { trial(row).value = number_of(row, 1, 2); }));
  PHAROS_TRY_VOID(
      each("SELECT trial_id, step, intermediate_value, intermediate_value_type FROM trial_intermediate_values "
           "JOIN trials USING (trial_id) WHERE study_id = ?1",
           [&](const auto& row) {
             trial(row).reports[static_cast<std::int64_t>(row.number(1).value_or(0))] = number_of(row, 2, 3);
           }));
  return study;
}

// ---- The study as events of a sweep

Value value_of_choice(const Json& choice) {
  if (choice.is_null()) return Value{std::string{"None"}};
  auto value = value_of_json(choice, "a choice");
  return value ? *std::move(value) : Value{choice.dump()};
}

/// May throw what the JSON library throws if a field is missing or has another type, and InvalidArgument if the domain
/// makes no sense.
Domain domain_of(const Json& distribution) {
  const auto name = distribution.at("name").get<std::string>();
  const Json& its = distribution.at("attributes");
  if (name == "CategoricalDistribution") {
    std::vector<Value> values;
    for (const Json& each : its.at("choices")) values.push_back(value_of_choice(each));
    return choice(std::move(values));
  }
  const double low = its.at("low").get<double>();
  const double high = its.at("high").get<double>();
  const bool is_log = its.contains("log") ? its.at("log").get<bool>() : name.find("Log") != std::string::npos;
  const bool is_whole = name.starts_with("Int");
  double step = 0;
  for (const char* const key : {"step", "q"}) {  // Optuna calls the step "q" before version 3
    if (its.contains(key) && !its.at(key).is_null()) step = its.at(key).get<double>();
  }
  if (low == high) return choice({is_whole ? Value{static_cast<std::int64_t>(low)} : Value{low}});
  if (is_whole) {
    const auto from = static_cast<std::int64_t>(low);
    const auto to = static_cast<std::int64_t>(high);
    return is_log ? log_integers(from, to) : integers(from, to, static_cast<std::int64_t>(std::max(step, 1.0)));
  }
  if (is_log) return log_uniform(low, high);
  return step > 0 ? quantised(low, high, step) : uniform(low, high);
}

Value value_in(const Domain& domain, double number) {
  const bool is_choice = domain.kind == Domain::Kind::kChoice;
  if (is_choice && domain.choices.size() == 1) return domain.choices.front();
  const double most = is_choice ? static_cast<double>(domain.choices.size() - 1) : 0x1p62;
  if (!(number >= (is_choice ? 0 : -most) && number <= most)) {
    throw_error(Error{ErrorCode::kCorrupt, std::to_string(number) + " is outside of the domain: " + to_string(domain)});
  }
  if (is_choice) return domain.choices[static_cast<std::size_t>(number)];
  return domain.kind == Domain::Kind::kInteger ? Value{static_cast<std::int64_t>(number)} : Value{number};
}

/// Returns the domain that contains both, if they differ only in their ranges; nullopt otherwise.
std::optional<Domain> together(const Domain& a, const Domain& b) {
  if (a == b) return a;
  Domain both = a;
  both.low = std::min(a.low, b.low);
  both.high = std::max(a.high, b.high);
  Domain other = b;
  other.low = both.low;
  other.high = both.high;
  if (both.kind == Domain::Kind::kChoice || !(both == other)) return std::nullopt;
  return both;
}

/// Converts a date such as "2026-11-24 02:41:24.6", in UTC, into seconds since 1970.
std::optional<double> seconds_of_date(const std::string& text) {
  std::tm date{};
  double seconds = 0;
  char between = 0;
  if (std::sscanf(text.c_str(), "%d-%d-%d%c%d:%d:%lf", &date.tm_year, &date.tm_mon, &date.tm_mday, &between,
                  &date.tm_hour, &date.tm_min, &seconds) != 7) {
    return std::nullopt;
  }
  date.tm_year -= 1900;
  date.tm_mon -= 1;
  return static_cast<double>(::timegm(&date)) + seconds;
}

struct Converted {
  std::string name;
  Goal goal = Goal::kMinimise;
  Space space{};
  std::vector<SweepEvent> events{};
  std::size_t trials = 0;
};

bool has_result(const StoredTrial& trial) {
  const auto is_number = [](const auto& report) { return !std::isnan(report.second); };
  if (trial.state == State::kComplete) return trial.value && !std::isnan(*trial.value);
  return trial.state == State::kPruned && std::any_of(trial.reports.begin(), trial.reports.end(), is_number);
}

/// Throws Unsupported if the study has several objectives, Corrupt if a value is outside of its domain, and what
/// domain_of() throws.
Converted convert(const StoredStudy& study) {
  if (study.maximises.size() != 1) {
    throw_error(Error{ErrorCode::kUnsupported,
                      "the study \"" + study.name + "\" has " + std::to_string(study.maximises.size()) + " objectives",
                      "A sweep has one: name another study."});
  }
  Converted converted{.name = study.name, .goal = study.maximises.front() ? Goal::kMaximise : Goal::kMinimise};
  std::vector<Space::Parameter> parameters;
  std::map<std::string, Domain, std::less<>> domains;  // by Optuna's text of the distribution
  std::optional<double> first;
  std::int64_t least_step = 1;
  for (const StoredTrial& trial : study.trials) {
    const auto begin = seconds_of_date(trial.begin);
    if (begin && (!first || *begin < *first)) first = begin;
    if (!trial.reports.empty()) least_step = std::min(least_step, trial.reports.begin()->first);
  }
  for (const StoredTrial& trial : study.trials) {
    if (!has_result(trial)) continue;
    const std::uint64_t number = converted.trials++;
    Params params;
    for (const Sampled& sampled : trial.sampled) {
      auto known = domains.find(sampled.distribution);
      if (known == domains.end()) {
        auto json = parse_json(with_names(sampled.distribution), "a distribution");
        if (!json) throw_error(std::move(json).error());
        known = domains.emplace(sampled.distribution, domain_of(*json)).first;
      }
      params.set(sampled.name, value_in(known->second, sampled.number));
      const auto found =
          std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.name == sampled.name; });
      if (found == parameters.end()) {
        parameters.push_back({sampled.name, known->second});
      } else if (auto both = together(found->domain, known->second)) {
        found->domain = *std::move(both);
      }
    }
    const double origin = first.value_or(0);
    const double begin = seconds_of_date(trial.begin).value_or(origin) - origin;
    const double end = std::max(begin, seconds_of_date(trial.end).value_or(origin + begin) - origin);
    converted.events.emplace_back(TrialBegan{number, std::move(params), begin});
    for (const auto& [step, value] : trial.reports) {
      if (std::isnan(value)) continue;
      converted.events.emplace_back(
          TrialReported{.trial = number,
                        .step = static_cast<std::uint64_t>(step) - static_cast<std::uint64_t>(least_step) + 1,
                        .metrics = value,
                        .seconds = end,
                        .led = Led::kNothing});
    }
    if (trial.state == State::kComplete) {
      converted.events.emplace_back(TrialReturned{number, *trial.value, end});
    } else {
      converted.events.emplace_back(TrialCut{number, end});
    }
  }
  for (Space::Parameter& each : parameters) converted.space.add(std::move(each.name), std::move(each.domain));
  return converted;
}

Converted read(const std::filesystem::path& file, const std::string& name) {
  std::ifstream input{file, std::ios::binary};
  if (!input) throw_error(Error{ErrorCode::kNotFound, file.string() + " cannot be read"});
  std::string begin(kDatabase.size(), '\0');
  input.read(begin.data(), static_cast<std::streamsize>(begin.size()));
  auto study = begin == kDatabase ? read_database(file, name) : read_journal(file, name);
  if (!study) throw_error(std::move(study).error());
  try {
    return convert(*study);
  } catch (const Exception&) {
    throw;
  } catch (const std::exception& why) {
    throw_error(no_study(file, why.what()));
  }
}

}  // namespace

OptunaStudy load_optuna_study(const std::filesystem::path& file, const std::string& name) {
  Converted study = read(file, name);
  SweepResults::Contents contents{.goal = study.goal, .planned = study.trials};
  for (const SweepEvent& event : study.events) {
    if (auto noted = note(event, contents.metric, contents.trials); !noted) throw_error(std::move(noted).error());
    contents.seconds = std::max(contents.seconds, seconds_of(event));
  }
  return {std::move(study.name), std::move(study.space), SweepResults{std::move(contents)}};
}

std::size_t import_optuna_study(const std::filesystem::path& file, const std::filesystem::path& folder,
                                const std::string& name) {
  const Converted study = read(file, name);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_error(Error::from_errno("making the sweep's folder " + folder.string(), error.value()));
  auto journal = Journal::create(
      folder / "journal",
      {.metric = "value", .goal = study.goal, .trials = study.trials, .space = study.space.to_json()}, true);
  if (!journal) throw_error(std::move(journal).error());
  for (const SweepEvent& event : study.events) (*journal)->append(event);
  if (auto synced = (*journal)->sync(); !synced) throw_error(std::move(synced).error());
  return study.trials;
}

}  // namespace pharos::ml

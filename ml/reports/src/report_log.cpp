#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <span>

#include <nlohmann/json.hpp>

#include <pharos/base/whole_files.hpp>
#include <pharos/ml/report_log.hpp>

namespace pharos::ml {
namespace {

Result<Fd> open_file(const std::filesystem::path& path, int how) {
  Fd file{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | how, 0644)};
  if (!file) return Error::from_errno("opening " + path.string(), errno, "Give a folder that can be written to.");
  return file;
}

/// Its first line; a last one that was interrupted is gone, and the next comes behind the others.
Result<std::string> keep_whole_lines(const Fd& file) {
  PHAROS_TRY(const auto bytes, read_whole(file, "reading reports"));
  const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  const std::size_t end = text.rfind('\n') + 1;  // npos + 1 is 0
  if (::ftruncate(file.get(), static_cast<off_t>(end)) != 0 ||
      ::lseek(file.get(), static_cast<off_t>(end), SEEK_SET) < 0) {
    return Error::from_errno("going on behind reports", errno);
  }
  return std::string{text.substr(0, std::min(end, text.find('\n')))};
}

/// The fields of a line without its end.
std::vector<std::string> csv_fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"' && quoted && i + 1 < line.size() && line[i + 1] == '"') {
      fields.back() += line[++i];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  return fields;
}

Result<void> append(const Fd& file, std::string& text) {
  PHAROS_TRY_VOID(write_whole(file, std::as_bytes(std::span{text}), "writing reports", "Make room in their folder."));
  text.clear();
  return {};
}

}  // namespace

std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string{text};
  std::string quoted = "\"";
  for (const char each : text) {
    if (each == '"') quoted += '"';
    quoted += each;
  }
  return quoted + '"';
}

void append_number(std::string& to, double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  to.append(digits.data(), end);
}

void append_number(std::string& to, std::uint64_t value) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  to.append(digits.data(), end);
}

Result<ReportLog> ReportLog::make(const std::filesystem::path& folder, std::vector<std::string> first_columns) {
  PHAROS_TRY(Fd csv, open_file(folder / "reports.csv", O_TRUNC));
  PHAROS_TRY(Fd json, open_file(folder / "reports.jsonl", O_TRUNC));
  return ReportLog{std::move(csv), std::move(json), std::move(first_columns)};
}

Result<ReportLog> ReportLog::go_on(const std::filesystem::path& folder, std::vector<std::string> first_columns) {
  PHAROS_TRY(Fd csv, open_file(folder / "reports.csv", 0));
  PHAROS_TRY(Fd json, open_file(folder / "reports.jsonl", 0));
  PHAROS_TRY(const std::string head, keep_whole_lines(csv));
  PHAROS_TRY_VOID(keep_whole_lines(json));
  ReportLog log{std::move(csv), std::move(json), std::move(first_columns)};
  if (!head.empty() && !log.take_columns(head)) {
    return Error{ErrorCode::kFailedPrecondition,
                 (folder / "reports.csv").string() + " is of something else: it begins with " + head,
                 "Move it away, or give another folder."};
  }
  return log;
}

/// False: those are others.
bool ReportLog::take_columns(std::string_view head) {
  const std::vector<std::string> names = csv_fields(head);
  std::vector<std::string> first = first_columns_;
  first.emplace_back("seconds");
  if (names.size() < first.size() || !std::equal(first.begin(), first.end(), names.begin())) return false;
  for (std::size_t i = first.size(); i < names.size(); ++i) column_of(names[i]);
  written_columns_ = columns_.size();
  return true;
}

std::size_t ReportLog::column_of(const std::string& name) {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  if (found != columns_.end()) return static_cast<std::size_t>(found - columns_.begin());
  columns_.push_back(name);
  json_names_.push_back("," + nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) +
                        ":");
  return columns_.size() - 1;
}

void ReportLog::add(std::initializer_list<std::uint64_t> first, double seconds,
                    const std::vector<Metrics::Entry>& metrics) {
  row_.assign(columns_.size(), nullptr);
  json_lines_ += '{';
  auto name_of_first = first_columns_.begin();
  for (const std::uint64_t each : first) {
    json_lines_ += '"' + *name_of_first++ + "\":";
    append_number(json_lines_, each);
    json_lines_ += ',';
    append_number(csv_lines_, each);
    csv_lines_ += ',';
  }
  json_lines_ += "\"seconds\":";
  append_number(json_lines_, seconds);
  for (const auto& [name, value] : metrics) {
    const std::size_t column = column_of(name);
    row_.resize(columns_.size(), nullptr);
    row_[column] = &value;
    json_lines_ += json_names_[column];
    if (std::isfinite(value)) {
      append_number(json_lines_, value);
    } else {
      json_lines_ += "null";
    }
  }
  json_lines_ += "}\n";
  append_number(csv_lines_, seconds);
  for (const double* const value : row_) {
    csv_lines_ += ',';
    if (value != nullptr) append_number(csv_lines_, *value);
  }
  csv_lines_ += '\n';
}

Result<void> ReportLog::write() {
  if (json_lines_.empty()) return {};
  if (written_columns_ != columns_.size()) PHAROS_TRY_VOID(widen());
  PHAROS_TRY_VOID(append(csv_, csv_lines_));
  return append(json_, json_lines_);
}

// Lines that are there already, and those that wait, have as many columns as there were; the new ones are empty.
Result<void> ReportLog::widen() {
  PHAROS_TRY(const auto bytes, read_whole(csv_, "reading reports"));
  std::string lines{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  lines.erase(0, lines.find('\n') == std::string::npos ? lines.size() : lines.find('\n') + 1);
  lines += csv_lines_;
  std::string all;
  for (const std::string& name : first_columns_) all += name + ',';
  all += "seconds";
  for (const std::string& name : columns_) all += ',' + csv_field(name);
  all += '\n';
  const auto wanted = static_cast<std::ptrdiff_t>(first_columns_.size() + columns_.size());
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = lines.find('\n', begin);
    const std::string_view line = std::string_view{lines}.substr(begin, end - begin);
    all += line;
    all.append(static_cast<std::size_t>(wanted - std::count(line.begin(), line.end(), ',')), ',');
    all += '\n';
    begin = end + 1;
  }
  if (::ftruncate(csv_.get(), 0) != 0 || ::lseek(csv_.get(), 0, SEEK_SET) != 0) {
    return Error::from_errno("writing reports anew", errno);
  }
  written_columns_ = columns_.size();
  csv_lines_.clear();
  return append(csv_, all);
}

}  // namespace pharos::ml

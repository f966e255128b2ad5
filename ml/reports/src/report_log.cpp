#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>
#include <system_error>

#include <nlohmann/json.hpp>

#include <pharos/base/whole_files.hpp>
#include <pharos/ml/report_log.hpp>

namespace pharos::ml {
namespace {

constexpr std::size_t kWaitingMax = std::size_t{64} << 20;  // bytes of lines that wait to be written
constexpr const char* kWriting = "writing reports";
constexpr const char* kRemedy = "Free some space on the disk of the reports' folder.";

Result<Fd> open_file(const std::filesystem::path& path, int how) {
  Fd file{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | how, 0644)};
  if (!file) return Error::from_errno("opening " + path.string(), errno, "Give a folder that can be written to.");
  return file;
}

/// The first and the last line of a file.
struct Ends {
  std::string first;
  std::string last;
};
/// Removes an incomplete last line, and sets the file's position behind the lines that are left.
Result<Ends> keep_whole_lines(const Fd& file) {
  PHAROS_TRY(const auto bytes, read_whole(file, "reading reports"));
  const std::string_view text{reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  const std::size_t end = text.rfind('\n') + 1;  // npos + 1 is 0
  if (::ftruncate(file.get(), static_cast<off_t>(end)) != 0 ||
      ::lseek(file.get(), static_cast<off_t>(end), SEEK_SET) < 0) {
    return Error::from_errno("finding the end of the reports", errno);
  }
  const std::string_view lines = text.substr(0, end == 0 ? 0 : end - 1);
  return Ends{std::string{lines.substr(0, lines.find('\n'))}, std::string{lines.substr(lines.rfind('\n') + 1)}};
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

/// Writes all of the text, or nothing: an incomplete line would be joined with the next one. A part of the text that
/// cannot be removed stays behind the file's position, and the next call overwrites it: its text begins with this one.
Result<void> append(const Fd& file, std::string& text) {
  const off_t end = ::lseek(file.get(), 0, SEEK_CUR);
  auto written = write_whole(file, std::as_bytes(std::span{text}), kWriting, kRemedy);
  if (!written) {
    [[maybe_unused]] const int cut = ::ftruncate(file.get(), end);
    ::lseek(file.get(), end, SEEK_SET);
    return written;
  }
  text.clear();
  return {};
}

/// Returns the lines before the file's position, where append() has left the end of the whole lines.
Result<std::string> whole_lines(const Fd& file) {
  const off_t end = ::lseek(file.get(), 0, SEEK_CUR);
  PHAROS_TRY(const auto bytes, read_whole(file, "reading reports"));
  ::lseek(file.get(), end, SEEK_SET);  // read_whole() has moved it
  return std::string{reinterpret_cast<const char*>(bytes.data()),
                     std::min(bytes.size(), static_cast<std::size_t>(end))};
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
  return ReportLog{folder / "reports.csv", std::move(csv), std::move(json), std::move(first_columns)};
}

Result<ReportLog> ReportLog::go_on(const std::filesystem::path& folder, std::vector<std::string> first_columns) {
  PHAROS_TRY(Fd csv, open_file(folder / "reports.csv", 0));
  PHAROS_TRY(Fd json, open_file(folder / "reports.jsonl", 0));
  PHAROS_TRY(const Ends ends, keep_whole_lines(csv));
  PHAROS_TRY_VOID(keep_whole_lines(json));
  ReportLog log{folder / "reports.csv", std::move(csv), std::move(json), std::move(first_columns)};
  if (!ends.first.empty() && !log.take_columns(ends.first)) {
    return Error{ErrorCode::kFailedPrecondition,
                 log.csv_path_.string() + " is not a file of these reports: its header is " + ends.first,
                 "Move it away, or give another folder."};
  }
  std::uint64_t last = 0;
  const char* const end = ends.last.data() + ends.last.size();
  if (std::from_chars(ends.last.data(), end, last).ec == std::errc{}) log.last_ = last;  // the header has no number
  return log;
}

/// Takes the columns of a header. Returns false if its first columns are different.
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
  if (csv_lines_.size() + json_lines_.size() > kWaitingMax) return;
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

// Lines in the file, and some of those that wait, have fewer columns than the new header: they get empty fields. The
// new contents are written to another file, which then replaces this one, so that the file is whole at any time.
Result<void> ReportLog::widen() {
  PHAROS_TRY(std::string lines, whole_lines(csv_));
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
  std::filesystem::path beside = csv_path_;
  beside += ".wider";
  PHAROS_TRY(Fd wider, open_file(beside, O_TRUNC));
  auto written = append(wider, all);
  if (written && ::rename(beside.c_str(), csv_path_.c_str()) != 0) {
    written = Error::from_errno("renaming " + beside.string(), errno);
  }
  if (!written) {
    ::unlink(beside.c_str());
    return written;
  }
  csv_ = std::move(wider);
  written_columns_ = columns_.size();
  csv_lines_.clear();
  return {};
}

}  // namespace pharos::ml

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include <nlohmann/json.hpp>

#include <pharos/ml/readers.hpp>

#include "file_bytes.hpp"

namespace pharos::ml {
namespace {

using Json = nlohmann::json;

bool is_whole(const Json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>() <= INT64_MAX;
  return value.is_number_integer() || value.is_boolean();
}

/// A member of a line whose value is neither a list nor an object.
struct Cell {
  std::size_t row;
  Json value;
};

struct Cells {
  std::string name;
  std::vector<Cell> cells{};
  bool all_whole = true;
  bool all_numbers = true;
};

template <class Value>
std::vector<Value> filled(std::size_t rows, const Cells& from, Value missing) {
  std::vector<Value> values(rows, missing);
  for (const Cell& each : from.cells) {
    if (each.value.is_boolean()) {
      if constexpr (!std::is_same_v<Value, std::string>) values[each.row] = each.value.get<bool>() ? 1 : 0;
    } else {
      values[each.row] = each.value.get<Value>();
    }
  }
  return values;
}

Column column_of(Cells&& from, std::size_t rows) {
  if (from.all_whole && from.cells.size() == rows) return {std::move(from.name), filled<std::int64_t>(rows, from, 0)};
  if (from.all_numbers) {
    return {std::move(from.name), filled<double>(rows, from, std::numeric_limits<double>::quiet_NaN())};
  }
  for (Cell& each : from.cells) {
    if (!each.value.is_string()) each.value = each.value.dump();
  }
  return {std::move(from.name), filled<std::string>(rows, from, "")};
}

/// Returns a word that Python writes for numbers that JSON does not have; nullopt if there is none outside of texts.
std::optional<std::string_view> not_a_number_in(std::string_view line) {
  bool is_text = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (is_text && line[at] == '\\') {
      ++at;
    } else if (line[at] == '"') {
      is_text = !is_text;
    } else if (!is_text) {
      for (const std::string_view each : {"NaN", "Infinity"}) {
        if (line.substr(at).starts_with(each)) return each;
      }
    }
  }
  return std::nullopt;
}

/// If each row had its own names, the table would have a number of cells that is the square of the file's size.
void check_cells(const std::filesystem::path& path, std::size_t rows, std::size_t columns, std::size_t bytes) {
  constexpr std::size_t kCellsMin = std::size_t{1} << 24;
  constexpr std::size_t kCellsOfAByte = 64;
  if (columns == 0 || rows <= std::max(kCellsMin, bytes * kCellsOfAByte) / columns) return;
  throw_unsupported(path, "its " + std::to_string(rows) + " rows have " + std::to_string(columns) +
                              " names together, which makes a table of far more values than the file has; give all "
                              "rows the same names");
}

}  // namespace

Table read_json_lines(const std::filesystem::path& path) {
  const Bytes file = bytes_of_file(path, Keep::kMapped);
  std::string_view text{reinterpret_cast<const char*>(file.data()), file.size()};
  std::vector<Cells> columns;
  std::map<std::string, std::size_t, std::less<>> places;
  std::size_t rows = 0;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view own = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (own.find_first_not_of(" \t\r") == std::string_view::npos) continue;

    const auto where = [&] { return "line " + std::to_string(line); };
    // A line is refused at the first nested value, so deep nesting takes no memory.
    bool is_flat = true;
    std::vector<std::string> names;  // in the order of the line
    const auto look = [&](int depth, Json::parse_event_t event, Json& value) {
      const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
      if (opens && depth > 0) is_flat = false;
      if (event == Json::parse_event_t::key) names.push_back(value.get<std::string>());
      return is_flat;
    };
    const Json json = Json::parse(own, look, false);
    if (!is_flat) throw_unsupported(path, where() + " has a list or an object in it; only plain values can be read");
    const auto not_a_number = json.is_discarded() ? not_a_number_in(own) : std::nullopt;
    if (not_a_number) {
      throw_corrupt(path, where() + " has " + std::string{*not_a_number} + ", which is not valid JSON; write null");
    }
    if (!json.is_object()) throw_corrupt(path, where() + " is no JSON object");
    for (const std::string& name : names) {
      const Json& value = json[name];
      if (value.is_null()) continue;
      const auto [place, is_new] = places.try_emplace(name, columns.size());
      if (is_new) columns.push_back({.name = name});
      Cells& cells = columns[place->second];
      // The name is twice in the line; `json` has the last value.
      if (!cells.cells.empty() && cells.cells.back().row == rows) continue;
      cells.all_whole = cells.all_whole && is_whole(value);
      cells.all_numbers = cells.all_numbers && (value.is_number() || value.is_boolean());
      cells.cells.push_back({rows, value});
    }
    ++rows;
  }
  if (rows == 0) throw_corrupt(path, "it has no line");
  check_cells(path, rows, columns.size(), file.size());
  std::vector<Column> typed;
  typed.reserve(columns.size());
  for (Cells& each : columns) typed.push_back(column_of(std::move(each), rows));
  return {std::move(typed), rows};
}

}  // namespace pharos::ml

#include <algorithm>
#include <cstring>
#include <limits>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/readers.hpp>

namespace pharos::ml {
namespace {

[[noreturn]] void refuse(const Column& column, const std::string& why) {
  throw_error(Error{ErrorCode::kInvalidArgument, "the column \"" + column.name + "\" " + why});
}

}  // namespace

const Column& Table::operator[](std::string_view name) const {
  const auto found = std::ranges::find(columns_, name, &Column::name);
  if (found != columns_.end()) return *found;
  std::string names;
  for (const Column& each : columns_) names += (names.empty() ? "" : ", ") + each.name;
  throw_error(
      Error{ErrorCode::kNotFound, "there is no column \"" + std::string{name} + "\"", "There are: " + names + '.'});
}

const std::vector<std::string>& Table::texts(std::string_view name) const {
  const Column& column = (*this)[name];
  const auto* const texts = std::get_if<std::vector<std::string>>(&column.values);
  if (texts == nullptr) refuse(column, "has numbers, and no texts");
  return *texts;
}

Array Table::numbers(const std::vector<std::string>& names) const {
  std::vector<float> rows(rows_ * names.size());
  for (std::size_t place = 0; place < names.size(); ++place) {
    const Column& column = (*this)[names[place]];
    const auto copy = [&](const auto& values) {
      for (std::size_t row = 0; row < rows_; ++row) {
        rows[row * names.size() + place] = static_cast<float>(values[row]);
      }
    };
    if (const auto* const whole = std::get_if<std::vector<std::int64_t>>(&column.values)) {
      copy(*whole);
    } else if (const auto* const real = std::get_if<std::vector<double>>(&column.values)) {
      copy(*real);
    } else {
      refuse(column, "has texts, and no numbers");
    }
  }
  return Array::of(std::move(rows), {static_cast<std::int64_t>(rows_), static_cast<std::int64_t>(names.size())});
}

Array Table::integers(std::string_view name) const {
  const Column& column = (*this)[name];
  const auto* const whole = std::get_if<std::vector<std::int64_t>>(&column.values);
  if (whole == nullptr) refuse(column, "has values that are no whole numbers");
  return Array::of(*whole);
}

}  // namespace pharos::ml

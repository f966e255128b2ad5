#include "run/failures_alike.hpp"

#include <cctype>
#include <utility>

namespace pharos::ml {
namespace {

bool is_digit(char each) {
  return std::isdigit(static_cast<unsigned char>(each)) != 0;
}

/// The text without its numbers. What follows a digit without a space belongs to the number: "1e-05".
std::string without_numbers(std::string_view text) {
  std::string words;
  bool in_number = false;
  for (const char each : text) {
    in_number = is_digit(each) || (in_number && (std::isalpha(static_cast<unsigned char>(each)) != 0 || each == '.' ||
                                                 each == '-' || each == '+'));
    if (!in_number) words += each;
  }
  return words;
}

}  // namespace

void FailuresAlike::note(std::string_view error) {
  std::string words = without_numbers(error);
  in_a_row_ = in_a_row_ != 0 && words == words_ ? in_a_row_ + 1 : 1;
  words_ = std::move(words);
}

}  // namespace pharos::ml

#pragma once

#include <concepts>
#include <sstream>
#include <string>
#include <type_traits>

#include <pharos/base/export.hpp>

namespace pharos::detail {

template <class T>
std::string print(const T& value) {
  if constexpr (requires(std::ostream & out) { out << value; }) {
    std::ostringstream out;
    out << value;
    return out.str();
  } else if constexpr (requires { to_string(value); }) {
    return std::string{to_string(value)};
  } else if constexpr (requires { value.to_string(); }) {
    return value.to_string();
  } else if constexpr (std::is_enum_v<T>) {
    return std::to_string(static_cast<long long>(value));
  } else {
    return "?";
  }
}

template <class... Values>
std::string print_all(const Values&... values) {
  std::string text;
  ((text += text.empty() ? print(values) : ", " + print(values)), ...);
  return text;
}

[[noreturn]] PHAROS_API void check_failed(const char* condition, const char* names, const std::string& values,
                                          const char* file, int line);

}  // namespace pharos::detail

/// Checks a condition that only a bug can break. If it is false, prints the condition and the values to standard error
/// and aborts the process. Release builds check too. Any thread. The values are evaluated only when the check fails.
#define PHAROS_CHECK(condition, ...)                                                                               \
  do {                                                                                                             \
    if (!(condition)) [[unlikely]]                                                                                 \
      ::pharos::detail::check_failed(#condition, #__VA_ARGS__, ::pharos::detail::print_all(__VA_ARGS__), __FILE__, \
                                     __LINE__);                                                                    \
  } while (false)

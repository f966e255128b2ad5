#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>

#include <pharos/pharos.hpp>

/// Code that the larger examples share: options by name, files, and exit statuses with a message.
namespace examples {

/// The variable that an option sets. A bool takes no value and becomes true. A number must be above 0. A function gets
/// the value and returns whether it accepts the value.
using Option = std::variant<bool*, std::uint64_t*, double*, std::string*, std::function<bool(std::string_view)>>;
using Options = std::map<std::string_view, Option>;

template <class Number>
bool set_number(Number* to, std::string_view value) {
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), *to);
  return error == std::errc{} && end == value.data() + value.size() && *to > 0;
}

inline bool set(const Option& option, std::string_view value) {
  struct Set {
    std::string_view value;

    bool operator()(bool* to) const { return *to = true; }
    bool operator()(std::uint64_t* to) const { return set_number(to, value); }
    bool operator()(double* to) const { return set_number(to, value); }
    bool operator()(std::string* to) const {
      *to = value;
      return true;
    }
    bool operator()(const std::function<bool(std::string_view)>& take) const { return take(value); }
  };
  return std::visit(Set{value}, option);
}

/// Sets the variables of all options. Returns false if an option is unknown or has no valid value. Skips the options of
/// the Runtime.
inline bool read(std::span<char*> arguments, const Options& options) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view name = arguments[i];
    const bool is_runtimes = name.starts_with("--pharos-");
    const auto found = options.find(name);
    if (!is_runtimes && found == options.end()) return false;
    const bool has_value = is_runtimes ? name.find('=') == std::string_view::npos : found->second.index() != 0;
    if (has_value && ++i == arguments.size()) return false;
    if (!is_runtimes && !set(found->second, has_value ? arguments[i] : "")) return false;
  }
  return true;
}

/// Writes the text to a file. Throws if not all of the text can be written.
inline void write(const std::string& path, std::string_view text) {
  std::ofstream file{path, std::ios::binary};
  file << text << std::flush;
  if (!file) throw std::runtime_error{path + " cannot be written"};
}

/// Reads the options and calls `run`. Returns the exit status for main(): the status that `run` returns; 1, after the
/// message of the exception, if `run` throws; 2, after the usage, if the options are wrong; 0, after the usage, for
/// --help.
inline int run_program(int argc, char** argv, std::string_view usage, const Options& options,
                       const std::function<int(pharos::Runtime&)>& run) {
  const bool asks = argc > 1 && std::string_view{argv[1]} == "--help";
  if (asks || !read(std::span{argv, static_cast<std::size_t>(argc)}.subspan(1), options)) {
    std::fputs(std::string{usage}.c_str(), asks ? stdout : stderr);
    return asks ? 0 : 2;
  }
  try {
    pharos::Runtime runtime{argc, argv};
    return run(runtime);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", std::filesystem::path{argv[0]}.filename().c_str(), error.what());
    return 1;
  }
}

}  // namespace examples

#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <pharos/base/check.hpp>

namespace pharos {

/// error: somebody must act. warn: we recovered. info: whoever runs the node cares. debug: for developers.
enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarn, kError, kOff };

struct LogField {
  std::string_view key;
  std::string value;
};

template <class T>
LogField kv(std::string_view key, const T& value) {
  return {key, detail::print(value)};
}

/// One event, with its identity in fields: `log(LogLevel::kWarn, "worker lost", {kv("worker", id)})`.
/// An error is logged once, where it is handled. Pure cores do not log. Any thread.
void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

/// What this process is called in its lines ("node", "zygote"), which go to standard error. Which of them are shown
/// PHAROS_LOG says: debug, info, warn, error or off; without it warnings and errors.
void set_log_role(std::string_view role);

}  // namespace pharos

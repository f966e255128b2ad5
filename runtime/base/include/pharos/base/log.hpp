#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include <pharos/base/check.hpp>
#include <pharos/base/export.hpp>

namespace pharos {

/// Error: somebody must act. Warn: the program recovered. Info: of interest to the person who runs the node. Debug: for
/// developers. kOff is a threshold only: no lines are written.
enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarn, kError, kOff };

struct LogField {
  std::string_view key;
  std::string value;
};

template <class T>
LogField kv(std::string_view key, const T& value) {
  return {key, detail::print(value)};
}

/// Writes one event to standard error, with its details in fields: `log(LogLevel::kWarn, "worker lost", {kv("worker",
/// id)})`. The environment variable PHAROS_LOG sets the lowest level that is written (debug, info, warn, error or off);
/// the default, also for any other value, is warn. The variable is read once. An error is logged once, where it is
/// handled. Pure cores do not log. Any thread; threads write one after the other. A line that cannot be written is
/// lost.
PHAROS_API void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

/// Sets the name of this process in its log lines ("node", "zygote"). Any thread.
void set_log_role(std::string_view role);

}  // namespace pharos

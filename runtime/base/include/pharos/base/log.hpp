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

/// Where this process's lines go: standard error, each with its role ("node", "zygote") before it.
/// Until it is called, and where PHAROS_LOG does not say otherwise, only warnings and errors are shown.
void set_log_role(std::string_view role);

}  // namespace pharos

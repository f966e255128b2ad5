#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <mutex>

#include <pharos/base/log.hpp>

namespace pharos {
namespace {

LogLevel level_from_environment() {
  const char* text = std::getenv("PHAROS_LOG");
  const std::string_view name = text == nullptr ? "warn" : text;
  if (name == "debug") return LogLevel::kDebug;
  if (name == "info") return LogLevel::kInfo;
  if (name == "error") return LogLevel::kError;
  if (name == "off") return LogLevel::kOff;
  return LogLevel::kWarn;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarn: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: return spdlog::level::off;
  }
  return spdlog::level::err;
}

// The only logger of this process. Created with the first line, and never destroyed on purpose, because threads of an
// ending process may still write to it.
struct Logger {
  std::mutex mutex;
  LogLevel threshold = level_from_environment();
  std::unique_ptr<spdlog::logger> sink;
  std::string role = "pharos";
};

Logger& logger() {
  static auto* const instance = new Logger;
  return *instance;
}

bool needs_quotes(std::string_view value) {
  return value.empty() || value.find_first_of(" \"=\n") != std::string_view::npos;
}

}  // namespace

void log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  Logger& to = logger();
  if (level < to.threshold) return;
  std::string line{event};
  for (const LogField& field : fields) {
    line.append(1, ' ').append(field.key).append(1, '=');
    if (!needs_quotes(field.value)) {
      line += field.value;
      continue;
    }
    line += '"';
    for (const char c : field.value) line += c == '\n' ? std::string{"\\n"} : c == '"' ? "\\\"" : std::string(1, c);
    line += '"';
  }
  const std::lock_guard lock{to.mutex};
  if (to.sink == nullptr) {
    to.sink = std::make_unique<spdlog::logger>(to.role, std::make_shared<spdlog::sinks::stderr_sink_st>());
    to.sink->set_level(spdlog::level::trace);
    to.sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %n[%P] %v");
  }
  to.sink->log(to_spdlog(level), line);
}

void set_log_role(std::string_view role) {
  Logger& to = logger();
  const std::lock_guard lock{to.mutex};
  to.role = role;
  to.sink.reset();
}

}  // namespace pharos

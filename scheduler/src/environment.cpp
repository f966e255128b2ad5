#include <algorithm>
#include <optional>
#include <string_view>

#include <pharos/scheduler/environment.hpp>

namespace pharos::scheduler {
namespace {

std::string_view name_of(std::string_view variable) {
  return variable.substr(0, variable.find('='));
}

}  // namespace

Result<Environment> environment_of(const std::map<std::string, std::string>& variables) {
  Environment environment;
  for (const auto& [name, value] : variables) {
    if (name.find('=') != std::string::npos) {
      return Error{ErrorCode::kInvalidArgument, "the environment variable \"" + name + "\" has a = in its name"};
    }
    environment.push_back(name + '=' + value);
  }
  PHAROS_TRY_VOID(check_environment(environment));
  return environment;
}

Result<void> check_environment(const Environment& environment) {
  std::size_t bytes = 0;
  std::optional<std::string_view> before;
  for (const std::string& each : environment) {
    const std::string_view name = name_of(each);
    if (name.empty() || name.size() == each.size()) {
      return Error{ErrorCode::kInvalidArgument, "an environment variable has no name, or no value",
                   "Give it both: .env = {{\"NAME\", \"value\"}}."};
    }
    if (each.find('\0') != std::string::npos) {
      return Error{ErrorCode::kInvalidArgument, "an environment variable has a zero byte"};
    }
    if (before && *before >= name) {
      return Error{ErrorCode::kInvalidArgument, "the environment variables are not in the order of their names"};
    }
    before = name;
    bytes += each.size() + 1;
  }
  if (bytes <= kEnvironmentBytesMax) return {};
  return Error{ErrorCode::kInvalidArgument, "the environment variables have " + std::to_string(bytes) + " bytes",
               "They may have " + std::to_string(kEnvironmentBytesMax) + ". Pass larger values as arguments."};
}

Environment joined(Environment of, const Environment& with) {
  for (const std::string& each : with) {
    const auto same = [&](const std::string& other) { return name_of(other) == name_of(each); };
    const auto found = std::find_if(of.begin(), of.end(), same);
    if (found == of.end()) {
      of.push_back(each);
    } else {
      *found = each;
    }
  }
  return of;
}

}  // namespace pharos::scheduler

#include <cstring>

#include <pharos/base/error.hpp>

namespace pharos {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::kCancelled: return "cancelled";
    case ErrorCode::kDeadlineExceeded: return "deadline exceeded";
    case ErrorCode::kInvalidArgument: return "invalid argument";
    case ErrorCode::kNotFound: return "not found";
    case ErrorCode::kFunctionNotFound: return "function not found";
    case ErrorCode::kAlreadyExists: return "already exists";
    case ErrorCode::kFailedPrecondition: return "failed precondition";
    case ErrorCode::kPermissionDenied: return "permission denied";
    case ErrorCode::kOverloaded: return "overloaded";
    case ErrorCode::kUnavailable: return "unavailable";
    case ErrorCode::kExhausted: return "exhausted";
    case ErrorCode::kObjectLost: return "object lost";
    case ErrorCode::kOwnerDied: return "owner died";
    case ErrorCode::kActorDied: return "actor died";
    case ErrorCode::kWorkerDied: return "worker died";
    case ErrorCode::kUserError: return "user error";
    case ErrorCode::kRuntimeStopped: return "runtime stopped";
    case ErrorCode::kCorrupt: return "corrupt";
    case ErrorCode::kUnsupported: return "unsupported";
    case ErrorCode::kInternal: return "internal error";
  }
  return "unknown error";
}

std::string_view to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::kNotStarted: return "not started";
    case Outcome::kFailed: return "failed";
    case Outcome::kUnknown: return "unknown";
  }
  return "unknown";
}

Error::Error(ErrorCode code, std::string message, std::string remedy)
    : story_{std::make_unique<Story>(Story{code, Outcome::kFailed, std::move(message), std::move(remedy), {}, {}})} {}

Error::Error(const Error& other) : story_{std::make_unique<Story>(*other.story_)} {}

Error& Error::operator=(const Error& other) {
  if (this != &other) story_ = std::make_unique<Story>(*other.story_);
  return *this;
}

Error Error::from_errno(std::string what, int error_number, std::string remedy) {
  ErrorCode code = ErrorCode::kUnavailable;
  switch (error_number) {
    case EACCES:
    case EPERM: code = ErrorCode::kPermissionDenied; break;
    case ENOENT: code = ErrorCode::kNotFound; break;
    case EEXIST:
    case EADDRINUSE: code = ErrorCode::kAlreadyExists; break;
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOSPC:
    case EDQUOT: code = ErrorCode::kExhausted; break;
    case EINVAL:
    case ENAMETOOLONG: code = ErrorCode::kInvalidArgument; break;
    default: break;
  }
  char buffer[128];
  return {code, std::move(what) + ": " + ::strerror_r(error_number, buffer, sizeof buffer), std::move(remedy)};
}

Error Error::with(std::string context) && {
  story_->context.push_back(std::move(context));
  return std::move(*this);
}

Error Error::with_outcome(Outcome outcome) && {
  story_->outcome = outcome;
  return std::move(*this);
}

Error Error::with_thrown(Thrown thrown) && {
  story_->thrown = std::move(thrown);
  return std::move(*this);
}

std::string Error::story() const {
  std::string text;
  for (auto line = story_->context.rbegin(); line != story_->context.rend(); ++line) text += *line + ": ";
  return text + story_->message;
}

std::string Error::to_string() const {
  std::string text = story();
  if (!story_->remedy.empty()) {
    if (!text.empty() && text.back() != '.') text += '.';
    text += ' ' + story_->remedy;
  }
  return text;
}

}  // namespace pharos

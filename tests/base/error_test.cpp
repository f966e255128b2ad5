#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>
#include <utility>

#include <pharos/base/error.hpp>

namespace pharos {
namespace {

TEST(Error, TextIsContextFromOutsideInThenMessageThenRemedy) {
  const Error error = Error{ErrorCode::kExhausted, "it needs 4 GPUs", "Ask for fewer."}
                          .with("placing \"trainer/3\"")
                          .with("creating the trainers");
  EXPECT_EQ(error.to_string(), "creating the trainers: placing \"trainer/3\": it needs 4 GPUs. Ask for fewer.");
}

TEST(Error, KeepsContextInTheOrderInWhichItWasAdded) {
  const Error error = Error{ErrorCode::kInternal, "x"}.with("inner").with("outer");
  EXPECT_EQ(error.context(), (std::vector<std::string>{"inner", "outer"}));
}

TEST(Error, TextHasNoFullStopTooMany) {
  EXPECT_EQ((Error{ErrorCode::kInternal, "It broke.", "Mend it."}).to_string(), "It broke. Mend it.");
  EXPECT_EQ((Error{ErrorCode::kInternal, "It broke"}).to_string(), "It broke");
}

TEST(Error, IsAValueWhoseCopiesAreApart) {
  const Error original{ErrorCode::kNotFound, "no such actor", "Look again."};
  Error copy = original;
  copy = std::move(copy).with("calling it").with_outcome(Outcome::kNotStarted);
  EXPECT_TRUE(original.context().empty());
  EXPECT_EQ(original.outcome(), Outcome::kFailed);
  EXPECT_EQ(copy.outcome(), Outcome::kNotStarted);
  EXPECT_EQ(copy.code(), ErrorCode::kNotFound);
  EXPECT_EQ(copy.message(), "no such actor");
  EXPECT_EQ(copy.remedy(), "Look again.");

  const Error& same = copy;
  copy = same;
  EXPECT_EQ(copy.context().size(), 1u);
}

TEST(Error, FromErrnoSaysWhatWasAttemptedAndWhy) {
  const Error error = Error::from_errno("binding 127.0.0.1:7000", EADDRINUSE, "Choose another.");
  EXPECT_EQ(error.to_string(), "binding 127.0.0.1:7000: Address already in use. Choose another.");
}

TEST(Error, FromErrnoChoosesTheCodeByWhatACallerCanDo) {
  const std::pair<int, ErrorCode> rows[] = {
      {EACCES, ErrorCode::kPermissionDenied},  {EPERM, ErrorCode::kPermissionDenied},
      {ENOENT, ErrorCode::kNotFound},          {EEXIST, ErrorCode::kAlreadyExists},
      {EADDRINUSE, ErrorCode::kAlreadyExists}, {EMFILE, ErrorCode::kExhausted},
      {ENFILE, ErrorCode::kExhausted},         {ENOMEM, ErrorCode::kExhausted},
      {ENOSPC, ErrorCode::kExhausted},         {EDQUOT, ErrorCode::kExhausted},
      {EINVAL, ErrorCode::kInvalidArgument},   {ENAMETOOLONG, ErrorCode::kInvalidArgument},
      {ECONNREFUSED, ErrorCode::kUnavailable}, {ECONNRESET, ErrorCode::kUnavailable},
      {EPIPE, ErrorCode::kUnavailable},        {EAGAIN, ErrorCode::kUnavailable},
  };
  for (const auto& [number, code] : rows) EXPECT_EQ(Error::from_errno("x", number).code(), code) << number;
}

TEST(Error, EveryCodeAndOutcomeHasANameOfItsOwn) {
  std::set<std::string_view> names;
  const auto last = static_cast<std::uint8_t>(ErrorCode::kInternal);
  for (std::uint8_t code = 1; code <= last; ++code) names.insert(to_string(static_cast<ErrorCode>(code)));
  EXPECT_EQ(names.size(), last);
  EXPECT_FALSE(names.contains("unknown error"));
  EXPECT_EQ(to_string(static_cast<ErrorCode>(last + 1)), "unknown error")
      << "a code was added behind kInternal, which codecs take for the last";
  EXPECT_EQ(to_string(Outcome::kNotStarted), "not started");
  EXPECT_EQ(to_string(Outcome::kFailed), "failed");
  EXPECT_EQ(to_string(Outcome::kUnknown), "unknown");
}

}  // namespace
}  // namespace pharos

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include <pharos/async/sleep.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "plain_tasks.hpp"

namespace pharos::cluster::errors {
namespace {

using namespace std::chrono_literals;

// Tests of failed calls: users' exceptions reach the caller unchanged, and messages say what to do.

struct Overdrawn {
  std::string account;
  int missing = 0;
  std::vector<int> last{};
};
/// An exception as users write them: what() is made from its fields.
class NotYours : public std::exception {
 public:
  NotYours() = default;
  explicit NotYours(std::string whose) : whose_{std::move(whose)} {}
  const std::string& whose() const { return whose_; }
  const char* what() const noexcept override { return whose_.c_str(); }
  auto pharos_fields() { return std::tie(whose_); }

 private:
  std::string whose_;
};
/// An exception whose fields cannot be told.
class Unspeakable : public std::exception {
 public:
  auto pharos_fields() {
    throw std::runtime_error{"these fields are secret"};
    return std::tie(field_);
  }

 private:
  int field_ = 0;
};
class Closed : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
class ClosedForGood : public Closed {
  using Closed::Closed;
};
class Undeclared : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Account {
 public:
  // NOLINTNEXTLINE(readability-identifier-naming): Pharos's
  static constexpr auto pharos_throws = types<Overdrawn, NotYours, Unspeakable>;

  explicit Account(int balance) : balance_{balance} {
    if (balance < 0) throw Overdrawn{"new", -balance};
  }
  int take(int amount) {
    if (amount > balance_) throw Overdrawn{"savings", amount - balance_, {1, 2, 3}};
    return balance_ -= amount;
  }
  int speak() { throw Unspeakable{}; }
  int take_for(const std::string& who) {
    if (who != "me") throw NotYours{who};
    return balance_;
  }
  int close(bool for_good) {
    if (for_good) throw ClosedForGood{"for good"};
    throw Closed{"for today"};
  }
  int undeclared() { throw Undeclared{"nobody knows"}; }
  int fill(std::size_t bytes) { throw Overdrawn{std::string(bytes, 'x'), 1}; }

 private:
  int balance_;
};

int pay(int amount) {
  if (amount > 10) throw Overdrawn{"task", amount - 10};
  if (amount == 7) throw amount;
  if (amount == 8) throw std::out_of_range{"eight"};
  if (amount == 9) throw ClosedForGood{"nine"};
  return amount;
}
int pay_in_another_worker(int amount) {
  Runtime runtime;
  return runtime.submit<&pay>(amount).get();
}
int pay_undeclared(int amount) {
  Runtime runtime;
  return runtime.submit<&pay>(amount).get();
}
int pay_either(bool for_good) {
  if (for_good) throw ClosedForGood{"for good"};
  throw Closed{"for today"};
}
int twice(int value) {
  return 2 * value;
}
std::pair<int, int> pay_two(int amount) {
  return {pay(amount), amount};
}

class Shop {
 public:
  static constexpr auto pharos_throws = types<Closed>;  // NOLINT(readability-identifier-naming): Pharos's

  int open() { return 1; }
  Async<int> close_later() {
    const auto slept = co_await async::sleep(1ms);
    if (slept) throw Closed{"later"};
    co_return 0;
  }
};

[[gnu::noinline]] int stumble(const char* over) {
  throw std::runtime_error{over};
}
/// Throws from all kinds of functions: plain methods and coroutines, before and after a wait.
class Hiker {
 public:
  int walk() { return stumble("a stone"); }
  Async<int> walk_at_once() { co_return stumble("a stone"); }
  Async<int> walk_later() {
    const auto slept = co_await async::sleep(1ms);
    co_return stumble(slept ? "a root" : "nothing");
  }
  Async<int> fall() {
    const auto slept = co_await async::sleep(1ms);
    if (slept) throw std::runtime_error{"no ground"};
    co_return 0;
  }
  Async<int> follow() { co_return co_await walk_later(); }
  Async<int> follow_far() { co_return co_await follow(); }
  Async<int> get_up_and_fall() {
    try {
      stumble("a stone");
    } catch (const std::runtime_error&) {
      ++falls_;
    }
    co_return co_await fall();
  }

 private:
  int falls_ = 0;
};
int hike() {
  return stumble("a branch");
}

Deadline soon() {
  return Deadline::in(20s);
}

/// Returns the E that `call` throws.
template <class E, class Call>
E thrown_by(const Call& call) {
  try {
    call();
  } catch (const E& e) {
    return e;
  } catch (const std::exception& e) {
    ADD_FAILURE() << "threw " << typeid(e).name() << " instead of " << typeid(E).name() << ": " << e.what();
    throw;
  }
  ADD_FAILURE() << "threw nothing instead of " << typeid(E).name();
  throw std::runtime_error{"threw nothing"};
}

}  // namespace
}  // namespace pharos::cluster::errors

// Declared as users declare exceptions, beside their functions.
// NOLINTBEGIN(readability-identifier-naming): the names are Pharos's
namespace user = pharos::cluster::errors;  // NOLINT(misc-unused-alias-decls): template arguments use it
template <>
inline constexpr auto pharos::throws<&user::pay> = pharos::types<user::Overdrawn, int, std::out_of_range, user::Closed>;
template <>
inline constexpr auto pharos::throws<&user::pay_in_another_worker> = pharos::types<user::Overdrawn>;
template <>
inline constexpr auto pharos::throws<&user::pay_two> = pharos::types<user::Overdrawn>;
template <>
inline constexpr auto pharos::throws<&user::pay_either> = pharos::types<user::Closed, user::ClosedForGood>;
template <>
inline constexpr auto pharos::throws<&user::Account::close> = pharos::types<user::Closed>;
// NOLINTEND(readability-identifier-naming)

namespace pharos::cluster::errors {
namespace {

using ErrorsTest = ClusterTest;

TEST_F(ErrorsTest, WhatATaskDeclaresArrivesWithItsFields) {
  Runtime runtime;
  const auto overdrawn = thrown_by<Overdrawn>([&] { runtime.submit<&pay>(12).get(soon()); });
  EXPECT_EQ(overdrawn.account, "task");
  EXPECT_EQ(overdrawn.missing, 2);
  EXPECT_EQ(thrown_by<int>([&] { runtime.submit<&pay>(7).get(soon()); }), 7);
  EXPECT_EQ(message_of<std::out_of_range>([&] { runtime.submit<&pay>(8).get(soon()); }), "eight");
  EXPECT_EQ(runtime.submit<&pay>(6).get(soon()), 6);
}

TEST_F(ErrorsTest, AnExceptionWhoseCodecThrowsArrivesWithoutItsFields) {
  Runtime runtime;
  const auto account = runtime.spawn<Account>(100);
  const auto spoken = account.call<&Account::speak>();
  EXPECT_SAYS(message_of<UserError>([&] { spoken.get(soon()); }), "Unspeakable");
  EXPECT_SAYS(spoken.try_get(soon()).error().to_string(),
              "its codec threw std::runtime_error: these fields are secret");
  EXPECT_EQ(account.call<&Account::take>(1).get(soon()), 99);
}

TEST_F(ErrorsTest, WhatAClassDeclaresItsMethodsThrow) {
  Runtime runtime;
  const auto account = runtime.spawn<Account>(100);
  const auto overdrawn = thrown_by<Overdrawn>([&] { account.call<&Account::take>(142).get(soon()); });
  EXPECT_EQ(overdrawn.account, "savings");
  EXPECT_EQ(overdrawn.missing, 42);
  EXPECT_EQ(overdrawn.last, (std::vector<int>{1, 2, 3}));
  const auto not_yours = thrown_by<NotYours>([&] { account.call<&Account::take_for>("you").get(soon()); });
  EXPECT_EQ(not_yours.whose(), "you");
  EXPECT_STREQ(not_yours.what(), "you");
  EXPECT_EQ(account.call<&Account::take>(1).get(soon()), 99);
}

TEST_F(ErrorsTest, WhatAClassDeclaresItsConstructorThrowsFromEachCall) {
  Runtime runtime;
  const auto account = runtime.spawn<Account>(-5);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(thrown_by<Overdrawn>([&] { account.call<&Account::take>(1).get(soon()); }).missing, 5);
  }
  const auto result = account.call<&Account::take>(1).try_get(soon());
  EXPECT_EQ(result.error().code(), ErrorCode::kActorDied);
  EXPECT_EQ(result.error().outcome(), Outcome::kNotStarted);
  EXPECT_SAYS(result.error().to_string(), "errors::Overdrawn");
}

TEST_F(ErrorsTest, TheTypeItselfGoesBeforeItsBaseAndOfOthersTheBaseArrives) {
  Runtime runtime;
  const auto account = runtime.spawn<Account>(1);
  EXPECT_EQ(message_of<Closed>([&] { account.call<&Account::close>(true).get(soon()); }), "for good");
  EXPECT_EQ(message_of<Closed>([&] { runtime.submit<&pay_either>(false).get(soon()); }), "for today");
  EXPECT_EQ(message_of<ClosedForGood>([&] { runtime.submit<&pay_either>(true).get(soon()); }), "for good");
}

TEST_F(ErrorsTest, WhatIsNotDeclaredIsAUserErrorThatNamesIt) {
  Runtime runtime;
  const auto account = runtime.spawn<Account>(1);
  const std::string text = message_of<UserError>([&] { account.call<&Account::undeclared>().get(soon()); });
  EXPECT_SAYS(text, "Account::undeclared threw ");
  EXPECT_SAYS(text, "errors::Undeclared: nobody knows");
}

TEST_F(ErrorsTest, AUserErrorSaysWhereItWasThrown) {
  Runtime runtime;
  const auto hiker = runtime.spawn<Hiker>();
  const auto said_by = [](const auto& ref) { return message_of<UserError>([&] { ref.get(soon()); }); };
  const std::string there = "; thrown in pharos::cluster::errors::(anonymous namespace)::stumble(char const*)";
  EXPECT_SAYS(said_by(runtime.submit<&hike>()), "a branch" + there);
  EXPECT_SAYS(said_by(hiker.call<&Hiker::walk>()), "a stone" + there);
  EXPECT_SAYS(said_by(hiker.call<&Hiker::walk_at_once>()), "a stone" + there);
  EXPECT_SAYS(said_by(hiker.call<&Hiker::walk_later>()), "a root" + there);
}

TEST_F(ErrorsTest, AnErrorThatPassedThroughCoroutinesWasThrownInTheInnermost) {
  Runtime runtime;
  const auto hiker = runtime.spawn<Hiker>();
  const auto said_by = [](const auto& ref) { return message_of<UserError>([&] { ref.get(soon()); }); };
  const std::string user = "; thrown in pharos::cluster::errors::(anonymous namespace)::";
  EXPECT_SAYS(said_by(hiker.call<&Hiker::follow>()), "a root" + user + "stumble(char const*)");
  EXPECT_SAYS(said_by(hiker.call<&Hiker::follow_far>()), "a root" + user + "stumble(char const*)");
  EXPECT_SAYS(said_by(hiker.call<&Hiker::fall>()), "no ground" + user + "Hiker::fall()");
  EXPECT_SAYS(said_by(hiker.call<&Hiker::get_up_and_fall>()), "no ground" + user + "Hiker::fall()");
}

TEST_F(ErrorsTest, TheErrorOfADeclaredExceptionStillNamesItAndThrowsIt) {
  Runtime runtime;
  const auto account = runtime.spawn<Account>(1);
  const auto result = account.call<&Account::take_for>("you").try_get(soon());
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code(), ErrorCode::kUserError);
  EXPECT_EQ(result.error().outcome(), Outcome::kFailed);
  EXPECT_SAYS(result.error().to_string(), "errors::NotYours: you");
  EXPECT_EQ(thrown_by<NotYours>([&] { throw_error(result.error()); }).whose(), "you");
}

TEST_F(ErrorsTest, ACoroutineThrowsWhatItDeclaresToo) {
  Runtime runtime;
  const auto shop = runtime.spawn<Shop>();
  EXPECT_EQ(message_of<Closed>([&] { shop.call<&Shop::close_later>().get(soon()); }), "later");
}

TEST_F(ErrorsTest, AnExceptionThatIsTooLargeArrivesAsAUserError) {
  Runtime runtime;
  const auto account = runtime.spawn<Account>(1);
  EXPECT_EQ(thrown_by<Overdrawn>([&] { account.call<&Account::fill>(1000u).get(soon()); }).account.size(), 1000u);
  const std::string text = message_of<UserError>([&] { account.call<&Account::fill>(1u << 20).get(soon()); });
  EXPECT_SAYS(text, "errors::Overdrawn");
  EXPECT_SAYS(text, "at most 16 KiB");
}

TEST_F(ErrorsTest, ADeclaredExceptionPassesThroughThenSplitWhenAllAndAsAnArgument) {
  Runtime runtime;
  const auto pays = runtime.submit<&pay>(12);
  const auto missing_of = [](const auto& ref) {
    return thrown_by<Overdrawn>([&] { static_cast<void>(ref.get(soon())); }).missing;
  };
  EXPECT_EQ(missing_of(pays.then([](int value) { return value; })), 2);
  EXPECT_EQ(missing_of(pays.then([](int value) { return value; }).then([](int value) { return value; })), 2);
  EXPECT_EQ(missing_of(when_all(std::vector<Ref<int>>{runtime.submit<&pay>(1), pays})), 2);
  EXPECT_EQ(missing_of(when_all(runtime.submit<&pay>(1), pays)), 2);
  EXPECT_EQ(missing_of(runtime.submit<&twice>(pays)), 2);
  const auto parts = runtime.submit<&pay_two>(13).split();
  EXPECT_EQ(missing_of(std::get<0>(parts)), 3);
  EXPECT_EQ(missing_of(std::get<1>(parts)), 3);
}

TEST_F(ErrorsTest, ADeclaredExceptionPassesThroughAWorkerThatDeclaresItToo) {
  Runtime runtime;
  EXPECT_EQ(thrown_by<Overdrawn>([&] { runtime.submit<&pay_in_another_worker>(15).get(soon()); }).missing, 5);
  const std::string text = message_of<UserError>([&] { runtime.submit<&pay_undeclared>(15).get(soon()); });
  EXPECT_SAYS(text, "pay_undeclared threw ");
  EXPECT_SAYS(text, "errors::Overdrawn");
}

TEST_F(ErrorsTest, AnErrorOfAnInnerCallTellsThroughWhichItCame) {
  Runtime runtime;
  // Neither pay_undeclared() nor the lambda declares the exception.
  const std::string text = message_of<UserError>([&] {
    runtime
        .submit<[] {
          Runtime inner;
          return inner.submit<&pay_undeclared>(15).get();
        }>()
        .get(soon());
  });
  EXPECT_SAYS(text, "lambda");
  EXPECT_SAYS(text, ": pharos::cluster::errors::pay_undeclared threw pharos::cluster::errors::Overdrawn");
}

// ---- Remedies

/// Expects that `call` throws an E whose text ends with the remedy, and has the remedy only once.
template <class E, class Call>
void expect_remedy(const std::string& remedy, const Call& call) {
  const E thrown = thrown_by<E>(call);
  EXPECT_EQ(thrown.error().remedy(), remedy);
  const std::string text = thrown.what();
  EXPECT_TRUE(text.ends_with(". " + thrown.error().remedy())) << text;
  EXPECT_EQ(text.find(remedy), text.size() - remedy.size()) << "more than once: " << text;
}

std::string write_token() {
  const std::string path = std::string{std::getenv("PHAROS_FOLDER")} + "/token-of-nobody";
  std::ofstream{path} << std::string(32, 't');
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  return path;
}

using RemediesTest = ClusterTest;

TEST_F(RemediesTest, OfActorsAndTheirNames) {
  Runtime runtime;
  const ActorOptions named{.name = "shop"};
  const auto shop = runtime.spawn<Shop>(named);
  shop.call<&Shop::open>().get(soon());
  expect_remedy<AlreadyExists>("Use another name, or set get_if_exists to use the existing actor.",
                               [&] { runtime.spawn<Shop>(named).call<&Shop::open>().get(soon()); });
  expect_remedy<NotFound>("Spawn an actor with that name. With get_if_exists, only the first caller creates it.",
                          [&] { runtime.actor<Shop>("nobody"); });
  expect_remedy<InvalidArgument>("Ask for it by its type, or take another name.",
                                 [&] { runtime.actor<Account>("shop"); });
  shop.kill();
  expect_remedy<ActorDied>("Spawn another actor if one is still needed.",
                           [&] { shop.call<&Shop::open>().get(soon()); });
  const auto dies = [](Shop&) { return end_worker(); };
  const auto once = runtime.spawn<Shop>();
  once.call<&Shop::open>().get(soon());
  expect_remedy<ActorDied>("Give it max_restarts to have it started again.", [&] { once.call<dies>().get(soon()); });
  const auto again = runtime.spawn<Shop>(ActorOptions{.max_restarts = 1});
  again.call<&Shop::open>().get(soon());
  expect_remedy<ActorDied>("If its calls may run twice, give it max_task_retries.",
                           [&] { again.call<dies>().get(soon()); });
  expect_remedy<ActorDied>("Fix what ends the actor, or give it more max_restarts.",
                           [&] { again.call<dies>().get(soon()); });
  const auto unmade = runtime.spawn<Account>(runtime.submit<&pay_undeclared>(8));
  expect_remedy<ActorDied>("Declare the exception's type with pharos::throws to catch it here as that type.",
                           [&] { unmade.call<&Account::take>(1).get(soon()); });
}

TEST_F(RemediesTest, OfCalls) {
  std::optional<Ref<int>> left;
  {
    Runtime runtime{RuntimeOptions{.cpus = 1}};
    expect_remedy<UserError>("Declare the exception's type with pharos::throws to catch it here as that type.",
                             [&] { runtime.submit<&pay_undeclared>(8).get(soon()); });
    expect_remedy<WorkerDied>("If the task may run twice, give it max_retries.",
                              [&] { runtime.submit<&end_worker>().get(soon()); });
    const auto busy = runtime.submit<&stay>(300);
    expect_remedy<DeadlineExceeded>("Give the call a later deadline, or have fewer calls under way.",
                                    [&] { runtime.submit<&stay>({.deadline = Deadline::in(50ms)}, 0).get(soon()); });
    const auto behind = runtime.submit<&stay>(0);
    behind.cancel();
    expect_remedy<Cancelled>("Call it again if its result is wanted after all.", [&] { behind.get(soon()); });
    busy.get(soon());
    expect_remedy<DeadlineExceeded>(
        "Give the call a later deadline. The function can ask pharos::cancelled() whether to stop.",
        [&] { runtime.submit<&stay>({.deadline = Deadline::in(100ms)}, 300).get(soon()); });
    left = runtime.submit<&stay>(100'000);
  }
  expect_remedy<RuntimeStopped>("Keep the Runtime alive until the last get().", [&] { left->get(soon()); });
}

TEST_F(RemediesTest, OfBounds) {
  Runtime runtime{RuntimeOptions{.object_store = 64_MiB}};
  const auto with_shape = [&](int shape) {
    return runtime.submit<&twice>(TaskOptions{.resources = {{"nothing", shape}}}, 1);
  };
  EXPECT_FALSE(thrown_by<InvalidArgument>([&] { with_shape(1).get(soon()); }).error().remedy().empty());
  for (int i = 2; i <= 256; ++i) static_cast<void>(with_shape(i));
  expect_remedy<Overloaded>("Use fewer different values in TaskOptions, for example rounded ones.",
                            [&] { with_shape(257).get(soon()); });
  EXPECT_FALSE(thrown_by<Exhausted>([&] { static_cast<void>(runtime.put(std::string(100 << 20, 'x'))); })
                   .error()
                   .remedy()
                   .empty());
}

TEST_F(RemediesTest, OfJoining) {
  const auto join = [](const std::string& token_file) {
    const Runtime joined{{.address = "127.0.0.1:1", .token_file = token_file}};
  };
  expect_remedy<PermissionDenied>("Set PHAROS_TOKEN_FILE to the cluster's token file.", [&] { join({}); });
  const std::string token = write_token();
  EXPECT_FALSE(thrown_by<Unavailable>([&] { join(token); }).error().remedy().empty());
  std::filesystem::remove(token);
}

}  // namespace
}  // namespace pharos::cluster::errors

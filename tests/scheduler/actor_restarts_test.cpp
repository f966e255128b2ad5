// Tests what happens to an actor when its process has ended or its constructor has failed.

#include <gtest/gtest.h>

#include <string>

#include "actor_table_fixture.hpp"

namespace pharos::scheduler {
namespace {

using namespace std::chrono_literals;

TEST_F(ActorTableTest, AFailedConstructorIsNotTriedAgain) {
  create(1, 5, spec_with(-1));
  EXPECT_EQ(constructor_failed(5, 1), (Texts{"refuse 1, user error: no such file", "end 5.1"}));
  EXPECT_EQ(connect(2, 5), (Texts{"refuse 2, user error: no such file"}));
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(constructor_failed(5, 1), Texts{});
  EXPECT_EQ(started(5, 1), Texts{});
  EXPECT_EQ(ended(5, 1), Texts{});
  EXPECT_EQ(connect(3, 5), (Texts{"refuse 3, user error: no such file"}));
}

TEST_F(ActorTableTest, AConstructorThatFailsAtARestartIsNotTriedAgainEither) {
  create_alive(5, spec_with(-1));
  ended(5, 1);
  EXPECT_EQ(constructor_failed(5, 1), Texts{}) << "stale";
  EXPECT_EQ(constructor_failed(5, 2), (Texts{"end 5.2"}));
  EXPECT_EQ(ended(5, 2), Texts{});
}

TEST_F(ActorTableTest, AnActorThatIsConstructedCannotFailToBe) {
  create_alive(5, spec_of(7));
  EXPECT_EQ(constructor_failed(5, 1), Texts{});
  EXPECT_EQ(connect(2, 5), (Texts{"ready 2, 5.1"}));
}

TEST_F(ActorTableTest, AnActorWithoutRestartsIsDeadWhenItsProcessIsGone) {
  create(1, 5, spec_of(7));
  EXPECT_EQ(ended(5, 1, "exit 3"), (Texts{"refuse 1, actor died: actor \"a\" ended: exit 3"}))
      << "it could not be started";
  EXPECT_EQ(table_.size(), 0u);
  EXPECT_EQ(ended(5, 1), Texts{});
}

TEST_F(ActorTableTest, AnActorIsRestartedAsOftenAsItMayAndThenSaysHowOften) {
  create_alive(5, spec_with(1));
  EXPECT_EQ(ended(5, 1), (Texts{"start 5.2"}));
  EXPECT_EQ(ended(5, 2), Texts{});
  EXPECT_EQ(connect(2, 5), (Texts{"refuse 2, actor died: actor \"a\" ended: it crashed; it was restarted 1 time"}));

  create_alive(6, spec_with(2));
  ended(6, 1);
  ended(6, 2);
  now_ += 100ms;
  EXPECT_EQ(tick(), (Texts{"start 6.3"}));
  connect(3, 6);
  EXPECT_EQ(ended(6, 3), (Texts{"refuse 3, actor died: actor \"a\" ended: it crashed; it was restarted 2 times"}));
}

TEST_F(ActorTableTest, RestartsBackOffFromNothingOver100MillisecondsTo10Seconds) {
  create_alive(5, spec_with(-1));
  EXPECT_EQ(ended(5, 1), (Texts{"start 5.2"}));
  std::uint32_t incarnation = 2;
  for (const Duration pause : {100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 6400ms, 10000ms, 10000ms, 10000ms}) {
    started(5, incarnation);
    ASSERT_EQ(ended(5, incarnation), Texts{});
    ASSERT_EQ(table_.next_tick(), now_ + pause);
    now_ += pause - 1ns;
    ASSERT_EQ(tick(), Texts{});
    now_ += 1ns;
    ++incarnation;
    ASSERT_EQ(tick(), (Texts{"start 5." + std::to_string(incarnation)}));
    ASSERT_EQ(table_.next_tick(), std::nullopt);
  }
}

TEST_F(ActorTableTest, OneWhoseProcessMayGoOnIsKeptBackBeforeItEndsOrWhileItWaits) {
  create_alive(5, spec_with(-1));
  table_.keep_back(ActorId{5}, now_ + 9s);
  EXPECT_EQ(ended(5, 1), Texts{});
  EXPECT_EQ(table_.next_tick(), now_ + 9s);
  table_.keep_back(ActorId{5}, now_ + 12s);
  now_ += 12s - 1ns;
  EXPECT_EQ(tick(), Texts{});
  now_ += 1ns;
  EXPECT_EQ(tick(), (Texts{"start 5.2"}));
  started(5, 2);
  now_ += 60s;
  EXPECT_EQ(ended(5, 2), (Texts{"start 5.3"}));
}

TEST_F(ActorTableTest, RestartsAreAtOnceAgainAfterAnIncarnationThatLivedFor60Seconds) {
  bring_to_restarting(spec_with(-1));
  now_ += 100ms;
  tick();
  started(5, 3);
  now_ += 60s - 1ns;
  EXPECT_EQ(ended(5, 3), Texts{});
  EXPECT_EQ(table_.next_tick(), now_ + 200ms);
  now_ += 200ms;
  tick();
  started(5, 4);
  now_ += 60s;
  EXPECT_EQ(ended(5, 4), (Texts{"start 5.5"}));
  EXPECT_EQ(ended(5, 5), Texts{});
  EXPECT_EQ(table_.next_tick(), now_ + 100ms);
}

TEST_F(ActorTableTest, AnIncarnationThatWasNeverConstructedHasNotLived) {
  bring_to_restarting(spec_with(-1));
  now_ += 100ms;
  tick();
  now_ += 1h;
  EXPECT_EQ(ended(5, 3), Texts{});
  EXPECT_EQ(table_.next_tick(), now_ + 200ms);
}

TEST_F(ActorTableTest, ALongLifeDoesNotBringBackRestarts) {
  create_alive(5, spec_with(1));
  ended(5, 1);
  started(5, 2);
  now_ += 1h;
  EXPECT_EQ(ended(5, 2), Texts{});
  EXPECT_EQ(table_.size(), 0u);
}

TEST_F(ActorTableTest, ATickStartsAllThatIsDueOldestFirstAndNothingElse) {
  for (const std::uint64_t actor : {5u, 6u, 7u}) {
    create_alive(actor, spec_with(-1));
    ended(actor, 1);
  }
  ended(6, 2);
  now_ += 10ms;
  ended(5, 2);
  now_ += 50ms;
  ended(7, 2);
  EXPECT_EQ(table_.next_tick(), now_ + 40ms);
  now_ += 50ms;
  EXPECT_EQ(tick(), (Texts{"start 6.3", "start 5.3"}));
  EXPECT_EQ(table_.next_tick(), now_ + 50ms);
}

TEST_F(ActorTableTest, EventsAboutOlderIncarnationsChangeNothing) {
  create_alive(5, spec_with(-1));
  ended(5, 1);
  connect(2, 5);
  EXPECT_EQ(started(5, 1), Texts{});
  EXPECT_EQ(ended(5, 1), Texts{});
  EXPECT_EQ(started(5, 3), Texts{}) << "nor about ones that are not there yet";
  EXPECT_EQ(ended(5, 3), Texts{});
  EXPECT_EQ(started(5, 2), (Texts{"ready 2, 5.2"}));
  ended(5, 2);
  EXPECT_EQ(started(5, 2), Texts{}) << "it is gone, and the third waits for its time";
  EXPECT_EQ(ended(5, 2), Texts{});
  EXPECT_EQ(constructor_failed(5, 2), Texts{});
  EXPECT_EQ(table_.next_tick(), now_ + 100ms);

  hold(5, 7, -1);
  create_alive(6, spec_with(-1));
  ended(6, 1);
  hold(6, 7, -1);
  EXPECT_EQ(started(6, 1), Texts{});
  EXPECT_EQ(ended(6, 1), Texts{});
  EXPECT_EQ(started(6, 2), (Texts{"end 6.2"}));
}

}  // namespace
}  // namespace pharos::scheduler

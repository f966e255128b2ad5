#include "node/questions.hpp"

#include "parts_fixture.hpp"

namespace pharos::node {
namespace {

class QuestionsTest : public PartsTest {
 protected:
  Client client() {
    auto job = std::make_shared<Job>();
    job->id = JobId{3};
    return {new_peer(), job, nullptr, CallerId{4}};
  }
  static wire::FindActor find_a() {
    wire::FindActor find;
    find.name = "a";
    return find;
  }
  Names answers() const { return host.links.back()->names(); }
  std::uint64_t number() { return asker_of_last().number; }
  const wire::Asker& asker_of_last() { return std::get<wire::FindActor>(told.back()).asker; }

  std::vector<Asked> forgotten;
  Questions questions{site.head, [this](const Asked& asked) { forgotten.push_back(asked); }};
};

TEST_F(QuestionsTest, TheHeadIsToldWhoAsks) {
  questions.pass_on(client(), find_a(), 1);
  EXPECT_EQ(asker_of_last().job, JobId{3});
  EXPECT_EQ(asker_of_last().caller, CallerId{4});
}

TEST_F(QuestionsTest, AnAnswerGoesToTheCallerOnce) {
  questions.pass_on(client(), find_a(), 1);
  const std::uint64_t asked = number();
  questions.on_found({ActorId{5}, "a", asked});
  questions.on_found({ActorId{5}, "a", asked});
  EXPECT_EQ(answers(), (Names{"ActorFound"}));
  EXPECT_TRUE(questions.holds().contains(CallerId{4}, ActorId{5}));
  EXPECT_TRUE(questions.all().empty());
}

TEST_F(QuestionsTest, ARefusalGoesToTheCaller) {
  questions.pass_on(client(), find_a(), 1);
  questions.on_refused(*questions.take(number()), Error{ErrorCode::kNotFound, "there is no such actor"});
  EXPECT_EQ(answers(), (Names{"Failure"}));
}

TEST_F(QuestionsTest, ARefusalOfACallerElsewhereGoesByWayOfTheHead) {
  questions.refuse({.client = {nullptr, nullptr, nullptr, CallerId{9}}, .request = 1},
                   Error{ErrorCode::kOverloaded, "no room"});
  EXPECT_EQ(take_told(), (Names{"Refused"}));
}

TEST_F(QuestionsTest, AnotherHeadIsAskedWhatIsNotAnswered) {
  questions.pass_on(client(), find_a(), 1);
  take_told();
  questions.ask_again();
  EXPECT_EQ(take_told(), (Names{"FindActor"}));
}

TEST_F(QuestionsTest, AMessageWithoutAnAnswerIsNotKept) {
  questions.pass_on(client(), wire::HoldActor{.actor = ActorId{5}, .count = 1}, std::nullopt);
  EXPECT_TRUE(questions.all().empty());
}

TEST_F(QuestionsTest, AnotherHeadCountsAHoldOnce) {
  questions.pass_on(client(), wire::HoldActor{.actor = ActorId{5}, .count = 1}, 1);
  EXPECT_EQ(std::get<wire::HoldActor>(told.back()).count, 1);
  ASSERT_EQ(questions.holds().list().size(), 1u);  // goes into the node's report
  questions.ask_again();
  const auto& asked = std::get<wire::HoldActor>(told.back());
  EXPECT_EQ(asked.count, 0);
  questions.on_answer(asked.asker.number, wire::ActorHeld{asked.asker.number});
  EXPECT_EQ(answers(), (Names{"ActorHeld"}));
  EXPECT_TRUE(questions.all().empty());
}

TEST_F(QuestionsTest, ABrokenPromiseTakesItsQuestionBack) {
  const Client creator = client();
  questions.pass_on(creator, wire::PromiseActor{.actor = ActorId{5}}, 1);
  questions.pass_on(creator, wire::BreakPromise{.actor = ActorId{5}, .why = Error{ErrorCode::kCancelled, "given up"}},
                    std::nullopt);
  EXPECT_EQ(answers(), (Names{"Failure"}));
  EXPECT_TRUE(questions.all().empty());
}

TEST_F(QuestionsTest, WhoForgetsItsQuestionsIsNotAnswered) {
  questions.pass_on(client(), find_a(), 1);
  questions.forget_if([](const Client& each) { return each.caller == CallerId{4}; });
  questions.on_found({ActorId{5}, "a", number()});
  EXPECT_EQ(answers(), Names{});
  EXPECT_EQ(forgotten.size(), 1U);
}

}  // namespace
}  // namespace pharos::node

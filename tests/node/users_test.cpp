// Questions of users, and of callers about their job.

#include <chrono>

#include "jobs_fixture.hpp"
#include "users/inspections.hpp"
#include "users/user_questions.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

class UsersTest : public JobsFixture {
 protected:
  Client user() {
    Client user{clients.add(Fd{}, net::Descriptors::kRefused)};
    client_link = host.links.back();
    return user;
  }
  static wire::ListRows list(const std::string& table, NodeId node) {
    wire::ListRows list;
    list.table = table;
    list.node = node;
    list.limit = 100;
    return list;
  }
  const Error& failure() const { return std::get<wire::Failure>(client_link->sent.back()).error; }

  Questions questions{site.head, [](const Asked&) {}};
  StoreService store{executor,
                     host,
                     {.node = NodeId{1}, .capacity = 1_MiB, .spill_folder = StoreService::kNoSpilling},
                     [this](NodeId node) { return far_nodes.find(node); }};
  UserQuestions users{site,
                      clients,
                      far_nodes,
                      questions,
                      logs,
                      ProcessListing{site, jobs, workers},
                      GpuListing{site, workers},
                      ObjectListing{site, store, clients}};
};

TEST_F(UsersTest, AQuestionAboutTheClusterGoesToTheHead) {
  users.list(user(), list("actors", {}), 1);
  EXPECT_EQ(take_told(), (Names{"ListRows"}));
  EXPECT_EQ(questions.all().size(), 1U);
}

TEST_F(UsersTest, AQuestionAboutThisNodeIsAnsweredHere) {
  users.list(user(), list("logs", NodeId{1}), 1);
  EXPECT_EQ(client_link->names(), (Names{"Rows"}));
}

TEST_F(UsersTest, AnUnknownTableIsRefused) {
  users.list(user(), list("cats", NodeId{1}), 1);
  EXPECT_EQ(failure().code(), ErrorCode::kInvalidArgument);
}

TEST_F(UsersTest, AQuestionAboutAnotherNodeIsPassedOnOnce) {
  const Client from = user();
  users.list(from, list("logs", NodeId{2}), 1);
  executor.run_until_idle();
  EXPECT_EQ(take_told(), (Names{"FindNode"}));
  wire::ListRows passed_on = list("logs", NodeId{2});
  passed_on.passed_on = true;
  users.list(from, passed_on, 2);
  EXPECT_EQ(failure().code(), ErrorCode::kUnavailable);
}

TEST_F(UsersTest, OnlySoManyQuestionsArePassedOnAtOnce) {
  const Client from = user();
  for (std::size_t i = 0; i < UserQuestions::kPassedOnMax; ++i) users.list(from, list("logs", NodeId{2}), i);
  executor.run_until_idle();
  users.list(from, list("logs", NodeId{2}), 100);
  EXPECT_EQ(failure().code(), ErrorCode::kOverloaded);
}

TEST_F(UsersTest, AProcessThatDoesNotAnswerIsListedAllTheSame) {
  add_job();
  job = jobs.find(JobId{1});
  start();
  users.list(user(), list("stacks", NodeId{1}), 1);
  executor.advance(10s);
  const auto& rows = std::get<wire::Rows>(client_link->sent.back());
  ASSERT_EQ(rows.rows.size(), 1U);
  EXPECT_NE(rows.rows[0].back(), "");
}

TEST_F(UsersTest, WorkersAreListedThoughTheyDoNotAnswerButWhatTheyRunIsNot) {
  add_job();
  job = jobs.find(JobId{1});
  start();
  const Client from = user();
  users.list(from, list("workers", NodeId{1}), 1);
  users.list(from, list("tasks", NodeId{1}), 2);
  executor.advance(10s);
  ASSERT_EQ(client_link->names(), (Names{"Rows", "Rows"}));
  const auto& workers_listed = std::get<wire::Rows>(client_link->sent[0]);
  EXPECT_EQ(workers_listed.columns, (Names{"id", "what", "actor", "node", "pid", "runs", "seconds"}));
  ASSERT_EQ(workers_listed.rows.size(), 1U);
  EXPECT_EQ(workers_listed.rows[0][5], "");
  EXPECT_TRUE(std::get<wire::Rows>(client_link->sent[1]).rows.empty());
}

TEST_F(UsersTest, AStoreThatNobodyHasUsedIsListedAsEmpty) {
  const Client from = user();
  users.list(from, list("memory", NodeId{1}), 1);
  users.list(from, list("objects", NodeId{1}), 2);
  ASSERT_EQ(client_link->names(), (Names{"Rows", "Rows"}));
  EXPECT_EQ(std::get<wire::Rows>(client_link->sent[0]).rows,
            (std::vector<Names>{{to_string(NodeId{1}), "0", "0", "0", "0", "0"}}));
  EXPECT_TRUE(std::get<wire::Rows>(client_link->sent[1]).rows.empty());
}

TEST_F(UsersTest, DeclaredGpusAreListedWithoutADriver) {
  users.list(user(), list("gpus", NodeId{1}), 1);
  executor.run_until_idle();
  const auto& rows = std::get<wire::Rows>(client_link->sent.back());
  EXPECT_EQ(rows.columns, (Names{"node", "gpu", "type", "busy", "memory", "in_use", "used_by"}));
  ASSERT_EQ(rows.rows.size(), 2U);
  EXPECT_EQ(rows.rows[1], (Names{to_string(NodeId{1}), "1", "", "", "", "", ""}));
}

TEST_F(UsersTest, ACallerIsAnsweredThoughNeitherWorkersNorTheHeadAnswer) {
  add_job();
  job = jobs.find(JobId{1});
  start();
  LeaseBook book{scheduler::Leases{scheduler::Resources{}, 8, 10s}, [](const auto&) {}, [] {}};
  Incarnations incarnations{site, book, jobs, workers};
  FarLeases far_leases{site, far_nodes, questions, [](const auto&) { return true; },
                       [](WorkerId, const auto&) { return true; }};
  Inspections inspections{site, book, workers, incarnations, far_leases};
  inspections.answer(client(), 1);
  executor.run_until_idle();
  EXPECT_EQ(inspections.size(), 1U);
  executor.advance(1s);
  const auto& inspected = std::get<wire::Inspected>(client_link->sent.back());
  ASSERT_EQ(inspected.workers.size(), 1U);
  EXPECT_FALSE(inspected.workers[0].answered);
  EXPECT_EQ(inspections.size(), 0U);
}

}  // namespace
}  // namespace pharos::node

#include "workers/hand_over_line.hpp"

#include <map>

#include "parts_fixture.hpp"

namespace pharos::node {
namespace {

class HandOverLineTest : public PartsTest {
 protected:
  /// Makes a worker, which takes its sockets when its peer is closed.
  std::shared_ptr<Worker> add_worker(std::uint64_t id) {
    auto worker = std::make_shared<Worker>();
    worker->id = WorkerId{id};
    worker->control = new_peer();
    workers.emplace(worker->id, worker);
    return worker;
  }
  /// Hands a socket over. `made` counts those that were made.
  bool add(std::uint64_t worker) {
    return line.add(WorkerId{worker}, [this](const std::shared_ptr<Worker>& there) {
      if (there == nullptr) ++in_vain;
      if (there != nullptr) ++made;
      return there == nullptr ? std::nullopt : std::optional{HandOverLine::Served{}};
    });
  }

  std::map<WorkerId, std::shared_ptr<Worker>> workers;
  std::size_t made = 0;
  std::size_t in_vain = 0;
  HandOverLine line{site, [this](WorkerId id) {
                      const auto found = workers.find(id);
                      return found == workers.end() ? nullptr : found->second;
                    }};
};

TEST_F(HandOverLineTest, ASocketIsSentAtOnceWhileFewAreOnTheirWay) {
  add_worker(1);
  EXPECT_TRUE(add(1));
  EXPECT_EQ(made, 1U);
  executor.run_until_idle();
  EXPECT_EQ(host.links.back()->names(), (Names{"ServeCaller"}));
}

TEST_F(HandOverLineTest, NoSocketIsMadeBeforeItsTurn) {
  const auto worker = add_worker(1);
  for (std::size_t i = 0; i <= scheduler::HandOvers::kOfWorkerMax; ++i) EXPECT_TRUE(add(1));
  EXPECT_EQ(made, scheduler::HandOvers::kOfWorkerMax);
  executor.run_until_idle();
  worker->control->close();
  executor.run_until_idle();
  EXPECT_EQ(made, scheduler::HandOvers::kOfWorkerMax + 1);
}

TEST_F(HandOverLineTest, WhoWaitedForAWorkerThatIsGoneIsAskedWhatToDo) {
  EXPECT_TRUE(add(1));
  EXPECT_EQ(in_vain, 1U);
  EXPECT_EQ(line.size(), 0U);
}

TEST_F(HandOverLineTest, AfterCloseNoSocketIsMade) {
  const auto worker = add_worker(1);
  for (std::size_t i = 0; i <= scheduler::HandOvers::kOfWorkerMax; ++i) add(1);
  executor.run_until_idle();
  line.close();
  worker->control->close();
  executor.run_until_idle();
  EXPECT_EQ(made, scheduler::HandOvers::kOfWorkerMax);
}

}  // namespace
}  // namespace pharos::node

// Tests of actors in simulated clusters: messages are lost, processes are killed, and a machine goes down.

#include "bank.hpp"

#include <gtest/gtest.h>

#include <pharos/testing/testing.hpp>

using namespace std::chrono_literals;
using pharos::testing::Cluster;
using pharos::testing::Seeds;

namespace {

const Seeds kSeeds{.count = 100, .failed = [] { return ::testing::Test::HasFailure(); }};

// The journal is at the first machine, the bank at one of the others.
const pharos::testing::ClusterOptions kMachines{
    .machines = {{.resources = {{"disk", 1}}}, {.resources = {{"desk", 1}}}, {.resources = {{"desk", 1}}}}};

pharos::Actor<Bank> open_bank(pharos::Runtime& runtime) {
  const auto journal = runtime.spawn<Journal>({.resources = {{"disk", 1}}, .max_task_retries = -1});
  return runtime.spawn<Bank>({.resources = {{"desk", 1}}, .max_restarts = -1, .max_task_retries = -1}, journal);
}

TEST(Bank, LosesNoDepositWhenMessagesAreLost) {
  pharos::testing::for_each_seed(kSeeds, [](std::uint64_t seed) {
    Cluster cluster{seed, kMachines};
    cluster.inject({.connection_cuts = 3, .lost_messages_one_in = 30});
    cluster.run([](pharos::Runtime& runtime) { EXPECT_EQ(deposit_all(open_bank(runtime), 50), 500); });
  });
}

TEST(Bank, LosesNoDepositWhenItsMachineGoesDown) {
  pharos::testing::for_each_seed(kSeeds, [](std::uint64_t seed) {
    Cluster cluster{seed, kMachines};
    cluster.run([&](pharos::Runtime& runtime) {
      const auto bank = open_bank(runtime);
      cluster.after(std::chrono::microseconds{cluster.draw(20'000)}, [&cluster, bank] {
        const std::size_t machine = cluster.machine_of(bank);
        if (machine != Cluster::kItsOwn) cluster.kill_machine(machine);
      });
      EXPECT_EQ(deposit_all(bank, 50), 500);
    });
  });
}

// Eight seconds without the machine take no time in this test.
TEST(Bank, WaitsForAMachineThatIsCutOff) {
  Cluster cluster{1, kMachines};
  cluster.run([&](pharos::Runtime& runtime) {
    const auto bank = open_bank(runtime);
    EXPECT_EQ(deposit_all(bank, 1), 10);
    cluster.cut_off(cluster.machine_of(bank), 8s);
    EXPECT_EQ(deposit_all(bank, 50), 500);
    EXPECT_GT(cluster.elapsed(), 8s);
  });
}

}  // namespace

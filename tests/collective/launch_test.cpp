#include "launch/launch.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>

#include "says.hpp"

namespace pharos::ml {
namespace {

using Environment = std::map<std::string, std::string>;

Result<std::optional<Launch>> launch_in(const Environment& environment) {
  return find_launch([&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
  });
}

Launch found_in(const Environment& environment) {
  const auto launch = launch_in(environment);
  EXPECT_TRUE(launch && *launch);
  return launch && *launch ? **launch : Launch{};
}

TEST(LaunchTest, EachLauncherIsUnderstood) {
  const Environment torchrun{{"RANK", "3"},       {"WORLD_SIZE", "4"},      {"LOCAL_WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "3"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}};
  const Environment open_mpi{{"OMPI_COMM_WORLD_RANK", "3"},
                             {"OMPI_COMM_WORLD_SIZE", "4"},
                             {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
                             {"PMIX_NAMESPACE", "17"}};
  const Environment mpich{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "4"}};
  const Environment srun{{"SLURM_PROCID", "3"},
                         {"SLURM_STEP_NUM_TASKS", "4"},
                         {"SLURM_STEP_NUM_NODES", "1"},
                         {"SLURM_JOB_ID", "7"},
                         {"SLURM_STEP_ID", "0"}};
  for (const Environment& each : {torchrun, open_mpi, mpich, srun}) {
    const Launch launch = found_in(each);
    EXPECT_EQ(launch.rank, 3U);
    EXPECT_EQ(launch.ranks, 4U);
    EXPECT_TRUE(launch.one_machine);
    EXPECT_FALSE(launch.job.empty());
  }
}

TEST(LaunchTest, ProcessesThatNobodyLaunchedAreAlone) {
  EXPECT_FALSE(*launch_in({}));
  EXPECT_FALSE(*launch_in({{"MASTER_ADDR", "node1"}, {"WORLD_SIZE", "4"}}));
  // These variables are set in the batch script of a Slurm job, which is not one of its tasks.
  EXPECT_FALSE(*launch_in({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "7"}}));
}

TEST(LaunchTest, SeveralMachinesAreToldFromOne) {
  const Environment base{{"RANK", "0"}, {"WORLD_SIZE", "4"}};
  const auto one_machine = [&](const Environment& more) {
    Environment all = base;
    all.insert(more.begin(), more.end());
    return found_in(all).one_machine;
  };
  EXPECT_FALSE(one_machine({{"LOCAL_WORLD_SIZE", "2"}}));
  EXPECT_FALSE(one_machine({{"MASTER_ADDR", "10.0.0.1"}}));
  EXPECT_TRUE(one_machine({{"MASTER_ADDR", "127.0.0.1"}}));
  EXPECT_TRUE(one_machine({{"MASTER_ADDR", "localhost"}}));
  EXPECT_FALSE(
      found_in({{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_NUM_NODES", "2"}}).one_machine);
}

TEST(LaunchTest, Rank0IsWhereTheLauncherSays) {
  const Environment torchrun{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(found_in(torchrun).master, "n1");
  EXPECT_EQ(found_in(torchrun).port, 29500);
  Environment with_agent = torchrun;
  with_agent["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(found_in(with_agent).port, 29501);
  Environment srun{
      {"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_NUM_NODES", "2"}, {"SLURM_JOB_ID", "12345"}};
  for (const auto& [list, first] : std::map<std::string, std::string>{{"n1", "n1"},
                                                                      {"n[3-7]", "n3"},
                                                                      {"n[03-17,20],m1", "n03"},
                                                                      {"n[5,7]", "n5"},
                                                                      {"a,b", "a"},
                                                                      {"gpu-[1]", "gpu-1"}}) {
    srun["SLURM_STEP_NODELIST"] = list;
    EXPECT_EQ(found_in(srun).master, first);
    EXPECT_EQ(found_in(srun).port, 22345);
  }
  Environment wrong = torchrun;
  wrong["MASTER_PORT"] = "65536";
  EXPECT_SAYS(launch_in(wrong).error().message(), "no port 65536");
}

TEST(LaunchTest, LaunchesOnOneMachineAreToldApart) {
  const Environment one{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}};
  Environment other = one;
  other["MASTER_PORT"] = "29501";
  EXPECT_NE(found_in(one).job, found_in(other).job);
  Environment again = one;
  again["TORCHELASTIC_RESTART_COUNT"] = "1";
  EXPECT_NE(found_in(one).job, found_in(again).job);
}

TEST(LaunchTest, NonsenseIsRefused) {
  EXPECT_SAYS(launch_in({{"RANK", "0"}}).error().message(), "WORLD_SIZE is missing");
  EXPECT_SAYS(launch_in({{"RANK", "zero"}, {"WORLD_SIZE", "2"}}).error().message(), "RANK is \"zero\"");
  EXPECT_SAYS(launch_in({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}).error().message(), "RANK is \"-1\"");
  EXPECT_SAYS(launch_in({{"RANK", "2"}, {"WORLD_SIZE", "2"}}).error().message(), "RANK is 2 and WORLD_SIZE is 2");
  EXPECT_SAYS(launch_in({{"RANK", "0"}, {"WORLD_SIZE", "65"}}).error().remedy(), "at most 64");
  EXPECT_SAYS(launch_in({{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}).error().message(), "not a number");
}

}  // namespace
}  // namespace pharos::ml

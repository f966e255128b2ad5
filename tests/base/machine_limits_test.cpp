#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <pharos/base/machine_limits.hpp>

#include "temporary_folder.hpp"

namespace pharos {
namespace {

namespace fs = std::filesystem;

/// Simulates the files of a machine (proc, cgroups) below a folder of this test.
class MachineLimitsTest : public testing::Test {
 protected:
  void SetUp() override {
    write("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1024 kB\nMemAvailable:   12582912 kB\n");
    write("proc/vmstat", "nr_free_pages 5\noom_kill 3\n");
  }
  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((root() / path).parent_path());
    std::ofstream{root() / path} << text;
  }
  const fs::path& root() const { return folder_.path(); }
  MachineLimits limits() const { return MachineLimits{root()}; }

  void second_version(const std::string& group, const std::string& from = "/") const {
    write("proc/self/cgroup", "0::" + group + "\n");
    write("proc/self/mountinfo", "30 23 0:27 " + from + " /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n");
  }
  void first_version(const std::string& group, const std::string& from = "/") const {
    write("proc/self/cgroup", "4:memory:" + group + "\n2:cpu,cpuacct:" + group + "\n1:name=systemd:/other\n");
    write("proc/self/mountinfo",
          "22 1 8:1 / / rw - ext4 /dev/sda rw\n"
          "32 31 0:29 " +
              from +
              " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
              "35 31 0:32 " +
              from + " /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n");
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(MachineLimitsTest, WithoutCgroupsThereIsWhatTheMachineHas) {
  EXPECT_EQ(limits().cpus(), 0);
  EXPECT_EQ(limits().memory(), 16_GiB);
  const auto use = limits().memory_use();
  ASSERT_TRUE(use);
  EXPECT_EQ(use->used, 4_GiB);
  EXPECT_EQ(use->total, 16_GiB);
  EXPECT_EQ(use->least, 16_GiB);
  EXPECT_FALSE(use->of_cgroup);
  EXPECT_EQ(use->kills, 3u);
}

TEST_F(MachineLimitsTest, WhatIsNotToBeSeenIsNotKnown) {
  fs::remove(root() / "proc/meminfo");
  EXPECT_EQ(limits().memory(), ByteCount{});
  EXPECT_FALSE(limits().memory_use());
}

TEST_F(MachineLimitsTest, TheLeastOfAGroupAndThoseAboveItCountsInVersionTwo) {
  second_version("/slice/job");
  write("sys/fs/cgroup/slice/job/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/slice/job/memory.max", "8589934592\n");
  write("sys/fs/cgroup/slice/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/slice/memory.max", "4294967296\n");
  EXPECT_EQ(limits().cpus(), 1.5);
  EXPECT_EQ(limits().memory(), 4_GiB);
  write("sys/fs/cgroup/slice/job/cpu.max", "50000 100000\n");
  write("sys/fs/cgroup/slice/job/memory.max", "1073741824\n");
  EXPECT_EQ(limits().cpus(), 0.5);
  EXPECT_EQ(limits().memory(), 1_GiB);
}

TEST_F(MachineLimitsTest, TheLeastOfAGroupAndThoseAboveItCountsInVersionOne) {
  first_version("/slice/job");
  write("sys/fs/cgroup/cpu,cpuacct/slice/job/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/slice/job/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/cpu,cpuacct/slice/cpu.cfs_quota_us", "250000\n");
  write("sys/fs/cgroup/cpu,cpuacct/slice/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/slice/job/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(limits().cpus(), 2.5);
  EXPECT_EQ(limits().memory(), 16_GiB) << "that is no limit";
  write("sys/fs/cgroup/memory/slice/memory.limit_in_bytes", "2147483648\n");
  EXPECT_EQ(limits().memory(), 2_GiB);
}

TEST_F(MachineLimitsTest, AContainerSeesItsOwnGroupAtTheTopWhateverItIsCalledOutside) {
  first_version("/docker/8a2f", "/docker/8a2f");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n");
  EXPECT_EQ(limits().memory(), 1_GiB);
  first_version("/docker/8a2f/inner", "/docker/8a2f");
  write("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "536870912\n");
  EXPECT_EQ(limits().memory(), 512_MiB);
  second_version("/../other");
  write("sys/fs/cgroup/memory.max", "268435456\n");
  EXPECT_EQ(limits().memory(), 256_MiB);
}

TEST_F(MachineLimitsTest, ALimitAboveWhatThereIsIsNone) {
  second_version("/job");
  write("sys/fs/cgroup/job/memory.max", "1099511627776\n");
  write("sys/fs/cgroup/job/memory.current", "1099511627776\n");
  EXPECT_EQ(limits().memory(), 16_GiB);
  EXPECT_FALSE(limits().memory_use()->of_cgroup);
}

TEST_F(MachineLimitsTest, MemoryInUseIsThatOfTheTightestGroupWithoutWhatTheKernelGivesBack) {
  second_version("/slice/job");
  write("sys/fs/cgroup/slice/memory.max", "4294967296\n");
  write("sys/fs/cgroup/slice/memory.current", "3221225472\n");
  write("sys/fs/cgroup/slice/memory.stat",
        "anon 5\nfile 7\nactive_file 1073741824\ninactive_file 536870912\n"
        "slab_reclaimable 268435456\nslab_unreclaimable 7\n");
  const auto use = limits().memory_use();
  ASSERT_TRUE(use);
  EXPECT_TRUE(use->of_cgroup);
  EXPECT_EQ(use->used, 1280_MiB);
  EXPECT_EQ(use->total, 4_GiB);
  write("sys/fs/cgroup/slice/job/memory.max", "1073741824\n");
  write("sys/fs/cgroup/slice/job/memory.current", "1063004160\n");
  EXPECT_EQ(limits().memory_use()->total, 1_GiB);
  write("sys/fs/cgroup/slice/job/memory.current", "0\n");
  EXPECT_EQ(limits().memory_use()->total, 4_GiB) << "the other one is tighter";
  EXPECT_EQ(limits().memory_use()->least, 1_GiB);
}

TEST_F(MachineLimitsTest, InVersionOneThePageCacheOfGroupsBelowIsLeftOutToo) {
  first_version("/job");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1073741824\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "1006632960\n");
  write("sys/fs/cgroup/memory/job/memory.stat",
        "active_file 1\ninactive_file 1\ntotal_active_file 268435456\ntotal_inactive_file 134217728\n");
  EXPECT_EQ(limits().memory_use()->used, 576_MiB);
}

TEST_F(MachineLimitsTest, ThisMachineHasMemoryAndUsesSomeOfIt) {
  const MachineLimits here;
  const auto use = here.memory_use();
  ASSERT_TRUE(use);
  EXPECT_GT(here.memory(), 64_MiB);
  EXPECT_GT(use->used, ByteCount{});
  EXPECT_LE(use->used, use->total);
}

}  // namespace
}  // namespace pharos

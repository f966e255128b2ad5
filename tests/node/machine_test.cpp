#include "daemon/machine.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "daemon/nvml.hpp"
#include "temporary_folder.hpp"

namespace pharos::node {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

/// A machine with 16 GiB of memory, of which objects may take 4 GiB. It has no GPUs unless a test adds some.
class MachineTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.object_store = (4_GiB).bytes();
    write("proc/meminfo", "MemTotal: 16777216 kB\nMemAvailable: 16777216 kB\n");
  }
  void TearDown() override {
    for (const char* const name : {"CUDA_VISIBLE_DEVICES", "TWO_GPUS_MIXED", "TWO_GPUS_NVLINK", "TWO_GPUS_FAIL"})
      ::unsetenv(name);
    if (driver_ != nullptr) ::dlclose(driver_);
  }
  /// Loads the NVML of two_gpus.cpp. The node then finds it by its name, because it is loaded already.
  void bring_two_gpus() {
    driver_ = ::dlopen(TWO_GPUS, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(driver_, nullptr) << ::dlerror();
  }
  int starts_of_driver() const { return reinterpret_cast<int (*)()>(::dlsym(driver_, "two_gpus_starts"))(); }
  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((root_.path() / path).parent_path());
    std::ofstream{root_.path() / path} << text;
  }
  Machine look(const std::string& resources = {}, const std::string& labels = {}) {
    options_.resources = resources;
    options_.labels = labels;
    auto machine = look_at_machine(options_, root_.path());
    EXPECT_TRUE(machine.ok()) << machine.error().to_string();
    return machine ? *std::move(machine) : Machine{};
  }

  DaemonOptions options_;
  TemporaryFolder root_;
  void* driver_ = nullptr;
};

TEST_F(MachineTest, ItsMemoryIsWhatObjectsLeave) {
  EXPECT_EQ(look().resources.memory(), static_cast<std::int64_t>((12_GiB).bytes()));
  EXPECT_EQ(look("memory=512MiB").resources.memory(), static_cast<std::int64_t>((512_MiB).bytes()));
  EXPECT_EQ(look("memory=0").resources.memory(), 0);
  options_.object_store = (20_GiB).bytes();
  EXPECT_EQ(look().resources.memory(), 0);
}

TEST_F(MachineTest, LimitsOfCgroupsAreItsCapacity) {
  write("proc/self/cgroup", "0::/job\n");
  write("proc/self/mountinfo", "30 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
  write("sys/fs/cgroup/job/memory.max", "8589934592\n");
  write("sys/fs/cgroup/job/cpu.max", "100000 100000\n");
  const Machine machine = look();
  EXPECT_EQ(machine.resources.memory(), static_cast<std::int64_t>((4_GiB).bytes()));
  EXPECT_EQ(machine.resources.cpus(), scheduler::Resources::kWhole);
}

TEST_F(MachineTest, WithoutADriverThereAreNoGpusButThoseThatAreDeclared) {
  EXPECT_EQ(find_gpus().error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(look().gpus, Names{});
  const Machine declared = look("gpu=4");
  EXPECT_EQ(declared.gpus, (Names{"0", "1", "2", "3"}));
  EXPECT_FALSE(declared.labels.contains("gpu_type"));
  ::setenv("CUDA_VISIBLE_DEVICES", "0,1", 1);
  EXPECT_EQ(look().gpus, Names{}) << "they are not there";
}

TEST_F(MachineTest, WithoutTheLibraryTheDriversOwnListIsCounted) {
  for (const char* const bus : {"0000:00:04.0", "0000:00:05.0", "0000:00:06.0"}) {
    write(fs::path{"proc/driver/nvidia/gpus"} / bus / "information", "Model: x\n");
  }
  EXPECT_EQ(look().gpus, (Names{"0", "1", "2"}));
  ::setenv("CUDA_VISIBLE_DEVICES", "2,GPU-8a2f,7,1", 1);
  EXPECT_EQ(look().gpus, (Names{"2", "GPU-8a2f"})) << "there is no 7, and CUDA looks no further";
}

TEST_F(MachineTest, GpusAreFoundThroughNvmlWhichIsLetGoOfAgain) {
  bring_two_gpus();
  const auto found = find_gpus();
  ASSERT_TRUE(found.ok()) << found.error().to_string();
  ASSERT_EQ(found->size(), 2u);
  EXPECT_EQ((*found)[0].type, "NVIDIA A100-SXM4-80GB");
  EXPECT_EQ((*found)[1].uuid, "GPU-8b3e0000-0000-0000-0000-000000000000");
  EXPECT_EQ((*found)[1].memory, 80_GiB);
  EXPECT_EQ(starts_of_driver(), 0);
  const Machine machine = look();
  EXPECT_EQ(machine.gpus, (Names{"0", "1"}));
  EXPECT_EQ(machine.labels.at("gpu_type"), "NVIDIA-A100-SXM4-80GB");
}

TEST_F(MachineTest, MemoryAndLinksOfTheGpusAreLabels) {
  bring_two_gpus();
  EXPECT_EQ(look().labels.at("gpu_memory"), "80GiB");
  EXPECT_EQ(look().labels.at("gpu_links"), "phb");
  EXPECT_EQ(look("", "gpu_links=mine").labels.at("gpu_links"), "mine");
  ::setenv("TWO_GPUS_NVLINK", "1", 1);
  EXPECT_EQ(look().labels.at("gpu_links"), "nvlink");
  ::setenv("CUDA_VISIBLE_DEVICES", "GPU-8b3e,0", 1);
  EXPECT_EQ(look().labels.at("gpu_links"), "nvlink") << "the order in which they are named does not matter";
  ::setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  EXPECT_FALSE(look().labels.contains("gpu_links")) << "one GPU has no link to another";
  ::setenv("TWO_GPUS_MIXED", "1", 1);
  EXPECT_EQ(look().labels.at("gpu_memory"), "15GiB");
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(look().labels.at("gpu_memory"), "15GiB") << "whoever asks for it must find as much on each GPU";
  EXPECT_FALSE(look("gpu=4").labels.contains("gpu_memory")) << "two of these are only said to be there";
}

TEST_F(MachineTest, ADriverThatDoesNotRunIsNone) {
  bring_two_gpus();
  ::setenv("TWO_GPUS_FAIL", "1", 1);
  EXPECT_EQ(find_gpus().error().message(), "starting NVML: Driver Not Loaded");
  EXPECT_EQ(look().gpus, Names{});
}

TEST_F(MachineTest, TheTypeIsSaidUnlessThereAreTwoOrTheUserSaysAnother) {
  bring_two_gpus();
  EXPECT_EQ(look("", "gpu_type=A100").labels.at("gpu_type"), "A100");
  EXPECT_EQ(look("gpu=1").labels.at("gpu_type"), "NVIDIA-A100-SXM4-80GB");
  EXPECT_FALSE(look("gpu=4").labels.contains("gpu_type")) << "two of these are only said to be there";
  EXPECT_FALSE(look("gpu=0").labels.contains("gpu_type"));
  ::setenv("TWO_GPUS_MIXED", "1", 1);
  EXPECT_FALSE(look().labels.contains("gpu_type"));
  ::setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  EXPECT_EQ(look().labels.at("gpu_type"), "Tesla-T4");
}

TEST_F(MachineTest, OnlyGpusThatAreVisibleToCudaAreGiven) {
  bring_two_gpus();
  const std::vector<std::pair<const char*, Names>> cases{
      {"", {}},
      {"1", {"1"}},
      {"1,0", {"1", "0"}},
      {"0,5,1", {"0"}},
      {"-1,0", {}},
      {"GPU-8b", {"GPU-8b"}},
      {"GPU-8b,GPU-ff,0", {"GPU-8b"}},
  };
  for (const auto& [visible, names] : cases) {
    ::setenv("CUDA_VISIBLE_DEVICES", visible, 1);
    const Machine machine = look();
    EXPECT_EQ(machine.gpus, names) << visible;
    EXPECT_EQ(machine.resources.gpus(), static_cast<std::int64_t>(names.size()) * scheduler::Resources::kWhole);
  }
  ::setenv("CUDA_VISIBLE_DEVICES", "GPU-8b", 1);
  options_.resources = "gpu=2";
  EXPECT_FALSE(look_at_machine(options_, root_.path()).ok()) << "more than are visible";
}

}  // namespace
}  // namespace pharos::node

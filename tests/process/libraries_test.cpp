#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <pharos/process/libraries.hpp>

#include "temporary_folder.hpp"

namespace pharos::process {
namespace {

namespace fs = std::filesystem;

bool has(const std::vector<std::string>& libraries, const std::string& begin) {
  return std::any_of(libraries.begin(), libraries.end(), [&](const std::string& library) {
    return fs::path{library}.filename().string().starts_with(begin);
  });
}

TEST(Libraries, OfThisProcessAreFoundAndHavePaths) {
  const auto libraries = loaded_libraries();
  EXPECT_TRUE(has(libraries, "libstdc++.so"));
  EXPECT_TRUE(has(libraries, "ld-"));
  for (const std::string& library : libraries) EXPECT_TRUE(fs::exists(library)) << library;
}

TEST(Libraries, OfAProgramAreThoseThatItLoads) {
  auto loaded = loaded_libraries();
  auto listed = libraries_of(fs::read_symlink("/proc/self/exe"));
  ASSERT_TRUE(listed.ok()) << listed.error().to_string();
  for (auto* each : {&loaded, &*listed}) std::sort(each->begin(), each->end());
  EXPECT_TRUE(std::includes(loaded.begin(), loaded.end(), listed->begin(), listed->end()));
  EXPECT_TRUE(has(*listed, "libstdc++.so"));
}

TEST(Libraries, OfWhatIsNoSuchProgramThereAreNone) {
  const TemporaryFolder folder;
  const fs::path script = folder.path() / "script";
  const fs::path trace = folder.path() / "it ran";
  std::ofstream{script} << "#!/bin/sh\ntouch '" << trace.string() << "'\n";
  fs::permissions(script, fs::perms::owner_all);
  EXPECT_EQ(libraries_of(script).value(), std::vector<std::string>{});
  EXPECT_FALSE(fs::exists(trace));
  EXPECT_EQ(libraries_of(folder.path() / "nothing").value(), std::vector<std::string>{});
}

TEST(Libraries, TheSystemsStayAndLibtorchGoesOnRequest) {
  const std::vector<std::string> all{"/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/libz.so.1",
                                     "/usr/lib/libpharos.so.0.1",       "/home/me/build/lib/libmine.so",
                                     "/opt/torch/lib/libtorch_cpu.so",  "/opt/torch/lib/libgomp-1a2b.so.1"};
  EXPECT_EQ(libraries_to_send(all, false),
            (std::vector<std::string>{"/usr/lib/libpharos.so.0.1", "/home/me/build/lib/libmine.so"}));
  EXPECT_EQ(libraries_to_send(all, true),
            (std::vector<std::string>{"/usr/lib/libpharos.so.0.1", "/home/me/build/lib/libmine.so",
                                      "/opt/torch/lib/libtorch_cpu.so", "/opt/torch/lib/libgomp-1a2b.so.1"}));
}

TEST(Libraries, OfAPyTorchFromPipThoseOfCudaAreLibtorchs) {
  const std::string packages = "/home/me/venv/lib/python3.11/site-packages/";
  const std::vector<std::string> all{packages + "torch/lib/libtorch.so", packages + "nvidia/cu13/lib/libcublas.so.13",
                                     "/home/me/venv/lib/libother.so"};
  EXPECT_EQ(libraries_to_send(all, false), std::vector<std::string>{"/home/me/venv/lib/libother.so"});
  EXPECT_EQ(libraries_to_send(all, true), all);
}

}  // namespace
}  // namespace pharos::process

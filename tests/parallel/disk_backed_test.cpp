// Tensors that lie in files.

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <torch/torch.h>

#include <filesystem>
#include <optional>
#include <string>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/disk_backed.hpp>

#include "lies_in_file.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

constexpr const char* kFolder = "/var/tmp";
constexpr std::int64_t kLarge = 1 << 20;  // floats

TEST(DiskBackedTest, LargeTensorsLieInFilesThatNobodySees) {
  std::optional<DiskBacked> disk{kFolder};
  at::Tensor large = torch::full({kLarge}, 2.0F);
  const at::Tensor small = torch::full({16}, 2.0F);
  EXPECT_TRUE(lies_in_file(large.const_data_ptr()));
  EXPECT_FALSE(lies_in_file(small.const_data_ptr()));
  for (const auto& each : std::filesystem::directory_iterator{kFolder}) {
    EXPECT_FALSE(each.path().filename().string().starts_with("pharos-tensor")) << each.path();
  }
  disk.reset();
  EXPECT_FALSE(lies_in_file(torch::full({kLarge}, 2.0F).const_data_ptr()));
  // A tensor outlives the DiskBacked that it was made by, and it grows into ordinary memory.
  EXPECT_EQ(large.sum().item<float>(), 2.0F * kLarge);
  large.resize_({2 * kLarge});
  EXPECT_FALSE(lies_in_file(large.const_data_ptr()));
  EXPECT_EQ(large.narrow(0, 0, kLarge).sum().item<float>(), 2.0F * kLarge);
}

TEST(DiskBackedTest, FoldersThatAreNoneOrMemoryAreRefused) {
  EXPECT_SAYS(message_of<FailedPrecondition>([] { DiskBacked{"/nowhere"}; }), "/nowhere: No such file or directory");
  EXPECT_SAYS(message_of<FailedPrecondition>([] { DiskBacked{"/dev/shm"}; }), "its file system is in memory");
  const DiskBacked one{kFolder};
  EXPECT_SAYS(message_of<FailedPrecondition>([] { DiskBacked{kFolder}; }), "Destroy the other DiskBacked first.");
}

TEST(DiskBackedTest, ATensorThatHasNoRoomIsAnErrorAndNoSignal) {
  const DiskBacked disk{kFolder};
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit little{kLarge, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &little);
  const std::string why = message_of<Exhausted>([] { torch::full({kLarge}, 2.0F); });
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_DFL);
  EXPECT_SAYS(why, "File too large");
}

}  // namespace
}  // namespace pharos::ml

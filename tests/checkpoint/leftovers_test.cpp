// Folders of saves that came to nothing.

#include "leftovers.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "temporary_folder.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

const std::string kEarlier = "step-000000000001-0123abcd.begun";
const std::string kOwn = "step-000000000002-0123abcd.begun";

class LeftoversTest : public testing::Test {
 protected:
  bool is_there(const std::string& name) const { return fs::exists(folder.path() / name); }
  void make(const std::string& name) const { fs::create_directory(folder.path() / name); }

  const TemporaryFolder folder;
  Leftovers leftovers{folder.path()};
};

TEST_F(LeftoversTest, OfEarlierProcessesAreRemovedButNotASaveThatHasBegun) {
  make(kEarlier);
  make(kOwn);
  leftovers.expect(kOwn);
  EXPECT_TRUE(leftovers.remove_all());
  EXPECT_FALSE(is_there(kEarlier));
  EXPECT_TRUE(is_there(kOwn));
}

TEST_F(LeftoversTest, AreLookedForOnce) {
  EXPECT_TRUE(leftovers.remove_all());
  make(kOwn);
  EXPECT_TRUE(leftovers.remove_all());
  EXPECT_TRUE(is_there(kOwn)) << "it is of this process";
}

TEST_F(LeftoversTest, OfAFailedSaveAreRemovedAgainWhenARankHasWrittenLater) {
  leftovers.add(kOwn);
  EXPECT_TRUE(leftovers.remove_all());
  make(kOwn);
  EXPECT_TRUE(leftovers.remove_all());
  EXPECT_FALSE(is_there(kOwn));
}

}  // namespace
}  // namespace pharos::ml

// A file that cannot be read for a reason that says nothing about its content is not damaged. The load fails with that
// reason, no older checkpoint is loaded in its place, the training does not begin anew, and all files stay. A folder
// that cannot be synced fails a save.

#include <string>
#include <vector>

#include "checkpoint_folder.hpp"
#include "stale_files.hpp"
#include "unprivileged.hpp"

namespace pharos::ml {
namespace {

class Unreadable : public CheckpointFolder {
 protected:
  Unreadable() {
    save(2, {11, 22});
    newest_ = saved().at(0).path;
  }
  /// The path of a file of the newest checkpoint. "" is the checkpoint's folder, ".." is the folder of all checkpoints.
  fs::path of_newest(const std::string& file) const {
    return file.empty() ? newest_ : file == ".." ? options().folder : newest_ / file;
  }
  void expect_untouched() const {
    EXPECT_TRUE(aside().empty());
    EXPECT_EQ(steps(), (std::vector<std::uint64_t>{22, 11}));
    PlainModel model{0, 1};
    EXPECT_EQ(load(model)->step, 22U);
    model.expect(22, false);
  }

 private:
  fs::path newest_;
};

// ---- The server of a network disk no longer knows its file handles

struct StaleFile {
  const char* name;
  FileCall call;
  const char* file;  ///< in the newest checkpoint
  const char* says;
};

class Stale : public Unreadable, public testing::WithParamInterface<StaleFile> {};

TEST_P(Stale, IsSaidByAllRanksAndNoOtherIsTaken) {
  const fs::path path = of_newest(GetParam().file);
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options()};
    PlainModel model{ranks.rank(), 2};
    if (ranks.rank() == 0) make_stale(GetParam().call, path);
    ranks.barrier();
    const std::string why = message_of<FailedPrecondition>([&] { checkpoints.load(model.state()); });
    EXPECT_SAYS(why, GetParam().says);
    EXPECT_SAYS(why, path.string() + ": Stale file handle");
    ranks.barrier();
  });
  make_none_stale();
  expect_untouched();
}

INSTANTIATE_TEST_SUITE_P(
    Files, Stale,
    testing::Values(StaleFile{"part_opened", FileCall::kOpen, "rank-00001.safetensors", "rank 1: "},
                    StaleFile{"part_read", FileCall::kRead, "rank-00001.safetensors", "rank 1: "},
                    StaleFile{"part_looked_at", FileCall::kLook, "rank-00001.safetensors", "rank 0: "},
                    StaleFile{"manifest_opened", FileCall::kOpen, "manifest.json", "rank 0: "},
                    StaleFile{"manifest_read", FileCall::kRead, "manifest.json", "rank 0: "},
                    StaleFile{"folder", FileCall::kOpen, "..", "rank 0: looking into "}),
    [](const auto& chosen) { return chosen.param.name; });

TEST_F(Unreadable, ManifestIsNotPassedOverByWhoeverLooks) {
  make_stale(FileCall::kOpen, of_newest("manifest.json"));
  EXPECT_SAYS(message_of<FailedPrecondition>([&] { saved(); }),
              of_newest("manifest.json").string() + ": Stale file handle");
  make_none_stale();
  expect_untouched();
}

// ---- The folder cannot be synced

/// A checkpoint counts as soon as it has its name, so those of later steps must not count.
TEST_F(CheckpointFolder, HasNoLaterCheckpointsWhenOnlyTheLastSyncOfASaveFails) {
  PlainModel model{0, 1};
  {
    Checkpoints checkpoints{Communicator::alone(), options()};
    for (const std::uint64_t step : {11, 21, 22}) save(checkpoints, model, step);
    make_stale(FileCall::kSync, options().folder);
    const std::string why = message_of<FailedPrecondition>([&] { save(checkpoints, model, 12); });
    EXPECT_SAYS(why, "syncing " + options().folder.string() + ": Stale file handle");
    make_none_stale();
  }
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{12, 11}));
  EXPECT_EQ(aside().size(), 2U);
  EXPECT_EQ(load(model)->step, 12U);
  model.expect(12);
}

// ---- The files belong to another user

/// The folder cannot be taken over, as on a full disk, but a training can still load and begin.
TEST_F(Unreadable, FolderIsNotOneThatMayNotBeWritten) {
  save(1, {1});
  fs::permissions(folder_.path(), fs::perms{0755});
  fs::permissions(options().folder, fs::perms{0555});
  PlainModel model{0, 1};
  {
    const Unprivileged nobody;
    Checkpoints checkpoints{Communicator::alone(), taking()};
    ASSERT_EQ(checkpoints.load(model.state())->step, 1U);
    EXPECT_SAYS(message_of<PermissionDenied>([&] { save(checkpoints, model, 2); }), "Permission denied");
  }
  fs::permissions(options().folder, fs::perms{0755});
  EXPECT_EQ(steps(), std::vector<std::uint64_t>{1});
}

struct ForbiddenFile {
  const char* name;
  const char* file;  ///< in the newest checkpoint
};

class Forbidden : public Unreadable, public testing::WithParamInterface<ForbiddenFile> {};

TEST_P(Forbidden, IsSaidAndNoOtherIsTaken) {
  const fs::path path = of_newest(GetParam().file);
  fs::permissions(folder_.path(), fs::perms{0755});
  const fs::perms before = fs::status(path).permissions();
  fs::permissions(path, fs::perms::none);
  run_processes(1, {}, [&](Communicator& ranks) {
    const Unprivileged unprivileged;
    const std::string why = message_of<PermissionDenied>([&] {
      Checkpoints checkpoints{ranks, options()};
      PlainModel model{0, 1};
      checkpoints.load(model.state());
    });
    EXPECT_SAYS(why, path.string() + ": Permission denied");
  });
  fs::permissions(path, before);
  expect_untouched();
}

INSTANTIATE_TEST_SUITE_P(Files, Forbidden,
                         testing::Values(ForbiddenFile{"part", "rank-00001.safetensors"},
                                         ForbiddenFile{"manifest", "manifest.json"}, ForbiddenFile{"checkpoint", ""},
                                         ForbiddenFile{"folder", ".."}),
                         [](const auto& chosen) { return chosen.param.name; });

}  // namespace
}  // namespace pharos::ml

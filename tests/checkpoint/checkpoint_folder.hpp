#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/checkpoints.hpp>

#include "plain_model.hpp"
#include "ranks.hpp"
#include "says.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml {

namespace fs = std::filesystem;

inline std::string bytes_of(const fs::path& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}
inline void write(const fs::path& path, const std::string& bytes) {
  std::ofstream{path, std::ios::binary} << bytes;
}

/// Runs `call`, which must throw kCorrupt, and returns the message.
template <class Call>
std::string corruption(const Call& call) {
  return message_of<Exception>([&] {
    try {
      call();
    } catch (const Exception& e) {
      EXPECT_EQ(e.error().code(), ErrorCode::kCorrupt) << e.what();
      throw;
    }
  });
}

class CheckpointFolder : public testing::Test {
 protected:
  CheckpointOptions options(std::size_t keep_last = 10) const {
    return {.folder = folder_.path() / "run", .keep_last = keep_last};
  }
  CheckpointOptions taking() const {
    CheckpointOptions own = options();
    own.takes_over = true;
    return own;
  }
  /// Returns when the checkpoint is on disk.
  static void save(Checkpoints& checkpoints, PlainModel& model, std::uint64_t step) {
    model.set(step);
    checkpoints.save(model.state(), {.step = step});
    checkpoints.finish();
  }
  void save(std::uint32_t ranks, const std::vector<std::uint64_t>& steps) const {
    run_threads(ranks, {}, [&](Communicator& communicator) {
      Checkpoints checkpoints{communicator, options()};
      PlainModel model{communicator.rank(), ranks};
      const State state = model.state();
      for (const std::uint64_t step : steps) {
        model.set(step);
        checkpoints.save(state, {.step = step, .epoch = step / 10, .metrics = {{"loss", 1.0 / double(step)}}});
        model.set(12345);  // save() has copied the values, so this change is not saved
      }
      checkpoints.finish();
    });
  }
  /// Loads on one rank.
  std::optional<Moment> load(PlainModel& model) const {
    Checkpoints checkpoints{Communicator::alone(), options()};
    return checkpoints.load(model.state());
  }
  std::vector<SavedCheckpoint> saved() const { return checkpoints_in(options().folder); }
  /// Returns the steps of the checkpoints in the folder, the newest first.
  std::vector<std::uint64_t> steps() const {
    std::vector<std::uint64_t> steps;
    for (const SavedCheckpoint& each : saved()) steps.push_back(each.moment.step);
    return steps;
  }
  /// Counts all folders of checkpoints and of unfinished saves.
  std::size_t folders() const {
    std::size_t folders = 0;
    for (const auto& each : fs::directory_iterator{options().folder}) folders += each.is_directory() ? 1 : 0;
    return folders;
  }
  /// Returns the checkpoints that were set aside and do not count any more.
  std::vector<fs::path> aside() const {
    std::vector<fs::path> aside;
    for (const auto& each : fs::directory_iterator{options().folder}) {
      if (each.path().extension() == ".aside") aside.push_back(each.path());
    }
    return aside;
  }
  fs::path part(std::size_t checkpoint, std::uint32_t rank) const {
    return saved().at(checkpoint).path / ("rank-0000" + std::to_string(rank) + ".safetensors");
  }

  // Rank 1 uses another path to the folder, which later leads to another folder. Then rank 0 sees nothing of rank 1's
  // files until the test moves them.
  fs::path elsewhere() const { return folder_.path() / "elsewhere"; }
  CheckpointOptions options_of(const Communicator& ranks) const {
    CheckpointOptions own = options();
    if (ranks.rank() == 1) own.folder = elsewhere();
    if (ranks.rank() == 1) fs::create_directory_symlink(options().folder, elsewhere());
    return own;
  }
  void go_elsewhere(const Communicator& ranks) const {
    if (ranks.rank() != 1) return;
    fs::remove(elsewhere());
    fs::create_directory(elsewhere());
  }
  /// Waits for a save that is under way and for a file in its folder, and returns that folder.
  static fs::path begun(const fs::path& folder, std::uint64_t step, const char* file = "") {
    const std::string begin = "step-" + std::string(11, '0') + std::to_string(step) + '-';
    for (int i = 0; i < 2000; ++i) {
      for (const auto& each : fs::directory_iterator{folder}) {
        if (each.path().filename().string().starts_with(begin) && fs::exists(each.path() / file)) return each.path();
      }
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
    ADD_FAILURE() << "nothing writes " << folder / begin << "…/" << file;
    return {};
  }
  void bring_from_elsewhere(std::uint64_t step, const std::vector<const char*>& files) const {
    const fs::path from = begun(elsewhere(), step, "rank-00001.json");
    const fs::path to = begun(options().folder, step);
    for (const char* const file : files) fs::rename(from / file, to / file);
  }

  const TemporaryFolder folder_;
};

/// Ranks that wait only a short time for each other.
constexpr CommunicatorOptions kQuick{.timeout = std::chrono::milliseconds{300}};

inline void flip(const fs::path& path, std::size_t place) {
  std::string bytes = bytes_of(path);
  bytes[place] = static_cast<char>(bytes[place] ^ 1);
  write(path, bytes);
}

}  // namespace pharos::ml

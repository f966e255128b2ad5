// What is saved is what is loaded, on any number of ranks; and what cannot be loaded says why.

#include <chrono>
#include <fstream>
#include <iterator>
#include <random>
#include <regex>
#include <thread>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/failpoint.hpp>

#include "plain_model.hpp"
#include "rank_threads.hpp"
#include "says.hpp"
#include "seed.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

std::string bytes_of(const fs::path& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}
void write(const fs::path& path, const std::string& bytes) {
  std::ofstream{path, std::ios::binary} << bytes;
}

/// Runs `call`, which must throw kCorrupt; returns what it says.
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
  void save(std::uint32_t ranks, const std::vector<std::uint64_t>& steps) const {
    run_threads(ranks, {}, [&](Communicator& communicator) {
      Checkpoints checkpoints{communicator, options()};
      PlainModel model{communicator.rank(), ranks};
      const State state = model.state();
      for (const std::uint64_t step : steps) {
        model.set(step);
        checkpoints.save(state, {.step = step, .epoch = step / 10, .metrics = {{"loss", 1.0 / double(step)}}});
        model.set(12345);  // what is saved is a copy
      }
      checkpoints.finish();
    });
  }
  /// On one rank.
  std::optional<Moment> load(PlainModel& model) const {
    Checkpoints checkpoints{Communicator::alone(), options()};
    return checkpoints.load(model.state());
  }
  std::vector<SavedCheckpoint> saved() const { return checkpoints_in(options().folder); }
  fs::path part(std::size_t checkpoint, std::uint32_t rank) const {
    return saved().at(checkpoint).path / ("rank-0000" + std::to_string(rank) + ".safetensors");
  }

  const TemporaryFolder folder_;
};

TEST_F(CheckpointFolder, LoadsOnAnyNumberOfRanks) {
  for (std::uint32_t from = 1; from <= 4; ++from) {
    const std::uint64_t step = 10 + from;
    save(from, {step});
    for (std::uint32_t to = 1; to <= 4; ++to) {
      SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to));
      run_threads(to, {}, [&](Communicator& ranks) {
        Checkpoints checkpoints{ranks, options()};
        PlainModel model{ranks.rank(), to, 3};
        const auto moment = checkpoints.load(model.state());
        ASSERT_TRUE(moment);
        EXPECT_EQ(moment->step, step);
        EXPECT_EQ(moment->epoch, 1U);
        ASSERT_EQ(moment->metrics.size(), 1U);
        EXPECT_EQ(moment->metrics[0].first, "loss");
        EXPECT_EQ(moment->metrics[0].second, 1.0 / double(step));
        model.expect(step, ranks.rank() < from);
      });
    }
  }
}

TEST_F(CheckpointFolder, HasNothingToLoadWhereNothingWasSaved) {
  PlainModel model{0, 1, 7};
  EXPECT_FALSE(load(model));
  model.expect(7);
}

TEST_F(CheckpointFolder, LoadsTheNewest) {
  save(3, {5, 6, 9});
  PlainModel model{0, 1};
  EXPECT_EQ(load(model)->step, 9U);
  model.expect(9);
  // A training that went back writes smaller steps again; the largest is the newest.
  save(2, {7});
  EXPECT_EQ(load(model)->step, 9U);
}

TEST_F(CheckpointFolder, KeepsTheLastAndTheBest) {
  const std::vector<double> losses{5, 1, 4, std::nan(""), 2, 3, 6};
  run_threads(2, {}, [&](Communicator& ranks) {
    CheckpointOptions kept = options(2);
    kept.keep_best = 2;
    Checkpoints checkpoints{ranks, kept};
    PlainModel model{ranks.rank(), 2};
    for (std::size_t i = 0; i < losses.size(); ++i) {
      checkpoints.save(model.state(), {.step = i, .metrics = {{"other", 0.0}, {"loss", losses[i]}}});
    }
    checkpoints.finish();
  });
  std::vector<std::uint64_t> steps;
  for (const SavedCheckpoint& each : saved()) steps.push_back(each.moment.step);
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{6, 5, 4, 1}));
}

TEST_F(CheckpointFolder, HoldsWholeTensorsForOthers) {
  save(3, {4});
  verify_checkpoint(saved()[0].path);
  EXPECT_EQ(saved()[0].ranks, 3U);
  const auto tensors = tensors_of_checkpoint(saved()[0].path);
  ASSERT_EQ(tensors.size(), 3U);
  for (const NamedArray& each : tensors) {
    if (each.name != "weight") continue;
    EXPECT_EQ(each.array.shape(), (std::vector<std::int64_t>{PlainModel::kRows, PlainModel::kColumns}));
    const auto values = each.array.values<float>();
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], PlainModel::weight(4, i));
  }
  // Each part is a file that others read, too.
  const SafeTensors part_file = SafeTensors::read(part(0, 1));
  EXPECT_FALSE(part_file.tensors().empty());
}

TEST_F(CheckpointFolder, LoadsRealNumbersAsOthers) {
  std::vector<float> wide{1, 0.5F, -3, 1.0F / 3};
  std::vector<std::byte> bytes(8);
  const auto state_of = [](DType dtype, std::span<std::byte> memory) {
    State state;
    state.add({.name = "x", .dtype = dtype, .shape = {4}, .bytes = memory, .is_shared = true});
    return state;
  };
  Checkpoints checkpoints{Communicator::alone(), options()};
  checkpoints.save(state_of(DType::kF32, std::as_writable_bytes(std::span{wide})), {.step = 1});
  checkpoints.finish();
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    ASSERT_TRUE(checkpoints.load(state_of(dtype, bytes)));
    for (std::size_t i = 0; i < 4; ++i) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.data() + 2 * i, 2);
      const float value = dtype == DType::kBF16 ? to_float(BFloat16{bits}) : to_float(Half{bits});
      EXPECT_NEAR(value, wide[i], 0.002) << to_string(dtype);
    }
  }
  EXPECT_SAYS(message_of<InvalidArgument>([&] { checkpoints.load(state_of(DType::kU8, std::span{bytes}.first(4))); }),
              "f32");
}

TEST_F(CheckpointFolder, TakesOtherNamesForWhatItHasNone) {
  std::vector<float> master{1, 2};
  std::vector<float> model{1.5, 2.5};
  State saved_state;
  saved_state.add({.name = "model.x",
                   .dtype = DType::kF32,
                   .shape = {2},
                   .bytes = std::as_writable_bytes(std::span{model}),
                   .is_shared = true});
  Checkpoints checkpoints{Communicator::alone(), options()};
  checkpoints.save(saved_state, {.step = 1});
  checkpoints.finish();
  State state;
  state.add({.name = "whole.x",
             .dtype = DType::kF32,
             .shape = {2},
             .bytes = std::as_writable_bytes(std::span{master}),
             .is_shared = true,
             .from = {"whole.x", "model.x"}});
  ASSERT_TRUE(checkpoints.load(state));
  EXPECT_EQ(master, model);
}

TEST_F(CheckpointFolder, IsOfTheModelThatLoadsIt) {
  save(2, {1});
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options()};
    PlainModel other{ranks.rank(), 2, 0, 2};
    const std::string text = message_of<InvalidArgument>([&] { checkpoints.load(other.state()); });
    EXPECT_SAYS(text, "\"model.weight\"");
    EXPECT_SAYS(text, "f32 (37, 11) in the checkpoint");
    EXPECT_SAYS(text, "f32 (74, 11) here");

    std::vector<float> more(1);
    State state;
    state.add(
        {.name = "model.bias", .dtype = DType::kF32, .shape = {1}, .bytes = std::as_writable_bytes(std::span{more})});
    EXPECT_SAYS(message_of<InvalidArgument>([&] { checkpoints.load(state); }), "\"model.bias\"");
  });
}

TEST_F(CheckpointFolder, IsOfOneStepOnAllRanks) {
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options()};
    PlainModel model{ranks.rank(), 2};
    EXPECT_SAYS(message_of<InvalidArgument>([&] { checkpoints.save(model.state(), {.step = 4 + ranks.rank()}); }),
                "rank 1 saves step 5, and rank 0 step 4");
  });
  EXPECT_TRUE(saved().empty());
}

TEST_F(CheckpointFolder, NeedsAFolderThatCanBe) {
  run_threads(2, {}, [&](Communicator& ranks) {
    EXPECT_SAYS(message_of<InvalidArgument>([&] { Checkpoints{ranks, {}}; }), "folder");
    write(folder_.path() / "file", "");
    EXPECT_SAYS(message_of<Unavailable>([&] {
                  Checkpoints{ranks, {.folder = folder_.path() / "file" / "x"}};
                }),
                "rank 0");
  });
}

// ---- Damage: two checkpoints, of which the newer is damaged

struct Damage {
  const char* name;
  std::function<void(const fs::path& newer, const fs::path& older)> done;
  std::vector<std::string> says;
};

void flip(const fs::path& path, std::size_t place) {
  std::string bytes = bytes_of(path);
  bytes[place] = static_cast<char>(bytes[place] ^ 1);
  write(path, bytes);
}

const std::vector<Damage> kDamages{
    {"byte",
     [](const fs::path& newer, const fs::path&) {
       const fs::path path = newer / "rank-00001.safetensors";
       flip(path, fs::file_size(path) - 100);
     },
     {"rank-00001.safetensors", "are not what was written"}},
    {"truncated",
     [](const fs::path& newer, const fs::path&) { fs::resize_file(newer / "rank-00000.safetensors", 1000); },
     {"rank-00000.safetensors has 1000 bytes, and should have "}},
    {"missing",
     [](const fs::path& newer, const fs::path&) { fs::remove(newer / "rank-00001.safetensors"); },
     {"rank-00001.safetensors is missing"}},
    {"other_step",
     [](const fs::path& newer, const fs::path& older) {
       fs::copy_file(older / "rank-00001.safetensors", newer / "rank-00001.safetensors",
                     fs::copy_options::overwrite_existing);
     },
     {"rank-00001.safetensors", "it is of another checkpoint, of step 11"}},
    {"checksum_removed",
     [](const fs::path& newer, const fs::path&) {
       const fs::path path = newer / "manifest.json";
       write(path, std::regex_replace(bytes_of(path), std::regex{"\"checksum\": \"[0-9a-f]*\", "}, ""));
     },
     {"manifest.json", "it has no checksum"}},
    {"pieces_checksum_removed",
     [](const fs::path& newer, const fs::path&) {
       const fs::path path = newer / "manifest.json";
       write(path, std::regex_replace(bytes_of(path), std::regex{"\"checksums\":\"[0-9a-f]*\""}, "\"checksums\":\"\""));
     },
     {"manifest.json", "its checksum is another one"}},
    {"manifest_empty",
     [](const fs::path& newer, const fs::path&) { write(newer / "manifest.json", ""); },
     {"manifest.json", "it has no checksum, or is cut off"}},
    {"manifest_of_other",
     [](const fs::path& newer, const fs::path& older) {
       fs::copy_file(older / "manifest.json", newer / "manifest.json", fs::copy_options::overwrite_existing);
     },
     {"are not what was written: it is of another checkpoint, of step 22"}},
};

class Damaged : public CheckpointFolder, public testing::WithParamInterface<Damage> {};

TEST_P(Damaged, NewerIsNamedAndTheOlderTaken) {
  save(2, {11, 22});
  GetParam().done(saved().at(0).path, saved().at(1).path);
  const fs::path newer = options().folder / "step-000000000022";
  std::string why;
  for (const auto& each : fs::directory_iterator{options().folder}) {
    if (!each.path().string().starts_with(newer.string())) continue;
    why = corruption([&] { verify_checkpoint(each.path()); });
  }
  for (const std::string& each : GetParam().says) EXPECT_SAYS(why, each);
  for (const std::uint32_t count : {1U, 2U, 3U}) {
    run_threads(count, {}, [&](Communicator& ranks) {
      Checkpoints checkpoints{ranks, options()};
      PlainModel model{ranks.rank(), count};
      EXPECT_EQ(checkpoints.load(model.state())->step, 11U);
      model.expect(11, ranks.rank() < 2);
    });
  }
}

TEST_P(Damaged, AndNoOtherIsNoFreshStart) {
  save(2, {11, 22});
  const fs::path older = saved().at(1).path;
  GetParam().done(saved().at(0).path, older);
  fs::remove_all(older);
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options()};
    PlainModel model{ranks.rank(), 2};
    const std::string text = corruption([&] { checkpoints.load(model.state()); });
    EXPECT_SAYS(text, "none can be read");
    for (const std::string& each : GetParam().says) EXPECT_SAYS(text, each);
  });
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, Damaged, testing::ValuesIn(kDamages),
                         [](const auto& chosen) { return chosen.param.name; });

TEST_F(CheckpointFolder, ThatLostItsCheckpointsIsNoFreshStart) {
  save(1, {3});
  fs::remove_all(saved().at(0).path);
  PlainModel model{0, 1};
  EXPECT_SAYS(corruption([&] { load(model); }), "their manifests are gone");
}

TEST_F(CheckpointFolder, RefusesEachFlippedByteOfItsManifestAndParts) {
  std::mt19937 random{static_cast<unsigned>(seed_of_test())};
  save(2, {1});
  const fs::path checkpoint = saved().at(0).path;
  for (const char* const file : {"manifest.json", "rank-00000.safetensors", "rank-00001.safetensors"}) {
    const std::string right = bytes_of(checkpoint / file);
    std::uint64_t head = 0;
    if (file[0] == 'r') std::memcpy(&head, right.data(), sizeof head);
    // A part's head says nothing that the manifest does not.
    const std::size_t begin = file[0] == 'r' ? head + sizeof head : 0;
    for (int round = 0; round < 100; ++round) {
      const std::size_t place = begin + random() % (right.size() - begin);
      std::string bytes = right;
      bytes[place] = static_cast<char>(bytes[place] ^ (1 << random() % 8));
      write(checkpoint / file, bytes);
      EXPECT_THROW(verify_checkpoint(checkpoint), Exception) << file << " at " << place;
    }
    write(checkpoint / file, right);
  }
  verify_checkpoint(checkpoint);
}

// ---- What goes wrong when one is written

TEST_F(CheckpointFolder, FailureOfTheDiskIsSaidAndTheTrainingGoesOn) {
  save(2, {1});
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options()};
    PlainModel model{ranks.rank(), 2, 2};
    if (ranks.rank() == 0) order_failpoint({Failpoint::kSaveBegun, FailpointOrder::Action::kFailOnce, 0});
    ranks.barrier();
    checkpoints.save(model.state(), {.step = 2});
    const std::string text = message_of<Unavailable>([&] { checkpoints.finish(); });
    EXPECT_SAYS(text, "No space left on device");
    order_failpoint({});
    ranks.barrier();
    model.set(3);
    checkpoints.save(model.state(), {.step = 3});
    checkpoints.finish();
    EXPECT_FALSE(checkpoints.last_error());
  });
  std::vector<std::uint64_t> steps;
  for (const SavedCheckpoint& each : saved()) steps.push_back(each.moment.step);
  EXPECT_EQ(steps, (std::vector<std::uint64_t>{3, 1}));
}

TEST_F(CheckpointFolder, PartThatNeverComesIsNamed) {
  run_threads(2, {}, [&](Communicator& ranks) {
    CheckpointOptions short_time = options();
    short_time.timeout = 200ms;
    if (ranks.rank() == 1) short_time.folder = folder_.path() / "elsewhere";
    if (ranks.rank() == 1) fs::create_directories(short_time.folder);
    Checkpoints checkpoints{ranks, short_time};
    PlainModel model{ranks.rank(), 2};
    checkpoints.save(model.state(), {.step = 1});
    EXPECT_SAYS(message_of<DeadlineExceeded>([&] { checkpoints.finish(); }), "rank 1 has not written its part");
  });
  EXPECT_TRUE(saved().empty());
}

}  // namespace
}  // namespace pharos::ml

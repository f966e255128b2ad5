// What is saved is what is loaded, on any number of ranks; and what cannot be loaded says why.

#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <random>
#include <regex>
#include <thread>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/failpoint.hpp>

#include "plain_model.hpp"
#include "ranks.hpp"
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
  /// Of those, the newest first.
  std::vector<std::uint64_t> steps() const {
    std::vector<std::uint64_t> steps;
    for (const SavedCheckpoint& each : saved()) steps.push_back(each.moment.step);
    return steps;
  }
  /// Whatever is in the folder of a checkpoint, or of what was to be one.
  std::size_t folders() const {
    std::size_t folders = 0;
    for (const auto& each : fs::directory_iterator{options().folder}) folders += each.is_directory() ? 1 : 0;
    return folders;
  }
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
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{6, 5, 4, 1}));
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
    const std::string text = message_of<FailedPrecondition>([&] {
      Checkpoints{ranks, {.folder = folder_.path() / "file" / "x"}};
    });
    EXPECT_SAYS(text, "rank 0");
    EXPECT_SAYS(text, "give a folder");
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
    const auto refuses_flipped = [&](std::size_t place, unsigned bit) {
      std::string bytes = right;
      bytes[place] = static_cast<char>(bytes[place] ^ (1U << bit));
      write(checkpoint / file, bytes);
      EXPECT_THROW(verify_checkpoint(checkpoint), Exception) << file << " at " << place << ", bit " << bit;
    };
    // The first bytes, where a manifest has its own checksum, one by one.
    for (std::size_t place = begin; place < begin + 48; ++place) {
      for (unsigned bit = 0; bit < 8; ++bit) refuses_flipped(place, bit);
    }
    for (int round = 0; round < 100; ++round) {
      const std::size_t place = begin + random() % (right.size() - begin);
      refuses_flipped(place, random() % 8);
    }
    write(checkpoint / file, right);
  }
  verify_checkpoint(checkpoint);
}

// ---- Going on from an older one: what is of a later step is of a past that did not happen

/// keep_last
class GoneBack : public CheckpointFolder, public testing::WithParamInterface<std::size_t> {
 protected:
  /// A training that is started again, and saves steps of these losses. What it began with.
  std::uint64_t go_on(const std::vector<std::pair<std::uint64_t, double>>& losses, std::size_t keep_best = 0) const {
    CheckpointOptions kept = options(GetParam());
    kept.keep_best = keep_best;
    std::atomic<std::uint64_t> first = 0;
    run_threads(2, {}, [&](Communicator& ranks) {
      Checkpoints checkpoints{ranks, kept};
      PlainModel model{ranks.rank(), 2};
      const auto moment = checkpoints.load(model.state());
      ASSERT_TRUE(moment);
      model.expect(moment->step);
      first = moment->step;
      for (const auto& [step, loss] : losses) {
        model.set(step);
        checkpoints.save(model.state(), {.step = step, .metrics = {{"loss", loss}}});
        checkpoints.finish();
      }
    });
    return first;
  }
  /// The newest so many of these.
  std::vector<std::uint64_t> kept_of(std::vector<std::uint64_t> steps) const {
    steps.resize(std::min(steps.size(), GetParam()));
    return steps;
  }
  void damage(std::size_t checkpoint) const { flip(part(checkpoint, 1), fs::file_size(part(checkpoint, 1)) - 100); }
  /// What does not count any more, and was not removed.
  std::vector<fs::path> aside() const {
    std::vector<fs::path> aside;
    for (const auto& each : fs::directory_iterator{options().folder}) {
      if (each.path().extension() == ".aside") aside.push_back(each.path());
    }
    return aside;
  }
};

TEST_P(GoneBack, ADamagedOneDoesNotCount) {
  save(2, {18, 20, 22});
  damage(0);
  EXPECT_EQ(go_on({{21, 1}}), 20U);
  EXPECT_EQ(steps(), kept_of({21, 20}));
  EXPECT_EQ(go_on({{22, 1}, {23, 1}, {24, 1}}), 21U);
  EXPECT_EQ(steps(), kept_of({24, 23}));
  ASSERT_EQ(aside().size(), 1U);
  EXPECT_SAYS(corruption([&] { verify_checkpoint(aside()[0]); }), "are not what was written");
}

TEST_P(GoneBack, SeveralDamagedOnesDoNotCount) {
  save(2, {20, 22, 24, 26});
  for (const std::size_t each : {0U, 1U, 2U}) damage(each);
  // As when it was killed between the first of them and the next.
  fs::rename(saved().at(1).path, saved().at(1).path.string() + ".aside");
  EXPECT_EQ(go_on({}), 20U);
  EXPECT_EQ(aside().size(), 3U);
  EXPECT_EQ(go_on({{21, 1}}), 20U);
  EXPECT_EQ(steps(), kept_of({21, 20}));
  EXPECT_EQ(go_on({{22, 1}}), 21U);
  EXPECT_EQ(steps(), kept_of({22, 21}));
}

TEST_P(GoneBack, ADamagedOneOfTheSameStepDoesNotCount) {
  save(2, {20, 22});
  damage(0);
  EXPECT_EQ(go_on({{22, 1}}), 20U);
  EXPECT_EQ(steps(), kept_of({22, 20}));
  for (const SavedCheckpoint& each : saved()) verify_checkpoint(each.path);
}

TEST_P(GoneBack, OfTheSameStepWhatWasSavedLastStaysWhateverTheClockSays) {
  save(2, {9});
  const fs::path before = saved().at(0).path;
  fs::last_write_time(before / "manifest.json", fs::file_time_type::clock::now() + 1h);
  EXPECT_EQ(go_on({{9, 1}}), 9U);
  EXPECT_EQ(saved().size(), GetParam());
  EXPECT_EQ(fs::exists(before), GetParam() == 2);
}

TEST_P(GoneBack, ADamagedOneIsNotTheBest) {
  save(2, {15});
  EXPECT_EQ(go_on({{19, 0.01}}, 1), 15U);
  EXPECT_EQ(go_on({{20, 3}, {22, 0.001}}, 2), 19U);
  damage(0);
  EXPECT_EQ(go_on({{21, 2}}, 1), GetParam() == 1 ? 19U : 20U);
  EXPECT_EQ(steps(), GetParam() == 1 ? (std::vector<std::uint64_t>{21, 19}) : (std::vector<std::uint64_t>{21, 20, 19}));
  EXPECT_EQ(go_on({{22, 2}, {23, 0.005}}, 1), 21U);
  EXPECT_EQ(steps(), kept_of({23, 22}));
}

TEST_P(GoneBack, OnPurposeItHasWhatItSaves) {
  save(2, {5, 6, 9, 12});
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options(GetParam())};
    PlainModel model{ranks.rank(), 2, 7};
    checkpoints.save(model.state(), {.step = 7});
    checkpoints.finish();
  });
  EXPECT_EQ(steps(), kept_of({7, 6}));
  EXPECT_EQ(go_on({{8, 1}, {9, 1}}), 7U);
  EXPECT_EQ(steps(), kept_of({9, 8}));
  // The others are whole: whoever gives them their names again has them.
  ASSERT_EQ(aside().size(), 2U);
  for (const fs::path& each : aside()) verify_checkpoint(each);
}

INSTANTIATE_TEST_SUITE_P(KeepLast, GoneBack, testing::Values(1U, 2U));

// ---- What goes wrong when one is written

struct Refusal {
  const char* name;
  std::function<void()> begin;  ///< in the process of the rank that cannot write
  std::function<void()> end;
  ErrorCode code;
  const char* says;
};
void limit_files_to(rlim_t bytes) {
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  limit.rlim_cur = std::min(bytes, limit.rlim_max);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
}
const std::vector<Refusal> kRefusals{
    {"full",
     [] {
       order_failpoint({Failpoint::kSaveBegun, FailpointOrder::Action::kFailOnce, 0});
     },
     [] { order_failpoint({}); }, ErrorCode::kExhausted, "No space left on device"},
    {"file_too_large", [] { limit_files_to(4096); }, [] { limit_files_to(RLIM_INFINITY); },
     ErrorCode::kFailedPrecondition, "File too large"},
};

class Refused : public CheckpointFolder, public testing::WithParamInterface<std::tuple<Refusal, std::uint32_t>> {};

// Not as if a rank had died, or could not be reached.
TEST_P(Refused, ByTheDiskIsSaidAndTheTrainingGoesOn) {
  const auto& [refusal, victim] = GetParam();
  constexpr std::int64_t kFactor = 20;  // 20 KiB of each rank
  run_processes(2, {}, [&, &how = refusal, where = victim](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options()};
    PlainModel model{ranks.rank(), 2, 1, kFactor};
    checkpoints.save(model.state(), {.step = 1});
    checkpoints.finish();
    if (ranks.rank() == where) how.begin();
    checkpoints.save(model.state(), {.step = 2});
    std::optional<Error> failed;
    try {
      checkpoints.finish();
    } catch (const Exception& e) {
      failed = e.error();
    }
    ASSERT_TRUE(failed);
    EXPECT_EQ(failed->code(), how.code) << failed->to_string();
    EXPECT_SAYS(failed->message(), how.says);
    EXPECT_SAYS(failed->message(), "rank-0000" + std::to_string(where) + ".safetensors");
    EXPECT_SAYS(failed->remedy(), "Make room");
    if (ranks.rank() == where || ranks.rank() == 0) {
      ASSERT_TRUE(checkpoints.last_error());
      EXPECT_EQ(checkpoints.last_error()->code(), how.code);
    } else {
      EXPECT_FALSE(checkpoints.last_error());
    }
    if (ranks.rank() == 0) {
      EXPECT_EQ(folders(), 1U) << "it takes no room";
    }
    ranks.barrier();
    if (ranks.rank() == where) how.end();
    model.set(3);
    checkpoints.save(model.state(), {.step = 3});
    checkpoints.finish();
    EXPECT_FALSE(checkpoints.last_error());
  });
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{3, 1}));
}

INSTANTIATE_TEST_SUITE_P(Disk, Refused, testing::Combine(testing::ValuesIn(kRefusals), testing::Values(0U, 1U)),
                         [](const auto& chosen) {
                           return std::string{std::get<0>(chosen.param).name} + "_at_rank_" +
                                  std::to_string(std::get<1>(chosen.param));
                         });

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

/// Ranks that do not wait long for each other.
constexpr CommunicatorOptions kQuick{.timeout = 300ms};

/// Rank 0 waits for what never comes, and has no room for more; rank 1 has nothing to wait for.
TEST_F(CheckpointFolder, RankWhoseDiskIsSlowerIsNoDeath) {
  run_threads(2, kQuick, [&](Communicator& ranks) {
    CheckpointOptions slow = options();
    slow.timeout = 3 * kQuick.timeout;
    if (ranks.rank() == 1) slow.folder = folder_.path() / "elsewhere";
    Checkpoints checkpoints{ranks, slow};
    PlainModel model{ranks.rank(), 2};
    Duration longest{};
    for (const std::uint64_t step : {1, 2, 3, 4}) {
      checkpoints.save(model.state(), {.step = step});
      longest = std::max(longest, checkpoints.last_stall());
    }
    EXPECT_GT(longest, kQuick.timeout);
  });
}

TEST_F(CheckpointFolder, RankThatLoadsLongerIsNoDeath) {
  save(2, {1});
  run_threads(2, kQuick, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options()};
    PlainModel model{ranks.rank(), 2};
    State state = model.state();
    if (ranks.rank() == 1) {
      const auto slow = [](std::span<const std::byte>) { std::this_thread::sleep_for(3 * kQuick.timeout); };
      state.add({.name = "note", .load = slow});
    }
    ASSERT_TRUE(checkpoints.load(state));
    model.expect(1);
  });
}

}  // namespace
}  // namespace pharos::ml

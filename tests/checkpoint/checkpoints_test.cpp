// Values that were saved are loaded on any number of ranks. If they cannot be loaded, the error says why.

#include <sys/resource.h>

#include <chrono>
#include <exception>
#include <fstream>
#include <random>
#include <regex>
#include <thread>

#include <pharos/object_store/checksum.hpp>

#include "checkpoint_folder.hpp"
#include "seed.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

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

TEST_F(CheckpointFolder, OfEqualsTheEarliestStaysTheBest) {
  for (const bool lower : {true, false}) {
    CheckpointOptions kept = options(1);
    kept.folder /= lower ? "lower" : "higher";
    kept.keep_best = 1;
    kept.is_better_lower = lower;
    Checkpoints checkpoints{Communicator::alone(), kept};
    PlainModel model{0, 1};
    const auto steps_after = [&](std::uint64_t step, double loss) {
      checkpoints.save(model.state(), {.step = step, .metrics = {{"loss", loss}}});
      checkpoints.finish();
      std::vector<std::uint64_t> found;
      for (const SavedCheckpoint& each : checkpoints_in(kept.folder)) found.push_back(each.moment.step);
      return found;
    };
    const double best = lower ? 1 : 9;
    steps_after(1, 5);
    EXPECT_EQ(steps_after(2, best), (std::vector<std::uint64_t>{2}));
    EXPECT_EQ(steps_after(3, best), (std::vector<std::uint64_t>{3, 2}));
    EXPECT_EQ(steps_after(4, 5), (std::vector<std::uint64_t>{4, 2}));
    EXPECT_EQ(steps_after(5, best), (std::vector<std::uint64_t>{5, 2}));
  }
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
  // Each part is a valid safetensors file.
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

TEST(State, HasEachNameOnce) {
  State state;
  std::uint64_t value = 0;
  state.add("x", value);
  EXPECT_SAYS(message_of<InvalidArgument>([&] { state.add({.name = "x", .shape = {0}}); }),
              "the state has \"x\" already");
  EXPECT_SAYS(message_of<InvalidArgument>([&] { state.add_of_rank("x", value); }), "the state has \"x\" already");
}

// ---- Damage: two checkpoints, of which the newer is damaged

struct Damage {
  const char* name;
  std::function<void(const fs::path& newer, const fs::path& older)> done;
  std::vector<std::string> says;
};

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
    {"head",
     [](const fs::path& newer, const fs::path&) { flip(newer / "rank-00001.safetensors", 20); },
     {"rank-00001.safetensors", "the bytes of its head are not what was written"}},
    {"manifest_missing",
     [](const fs::path& newer, const fs::path&) { fs::remove(newer / "manifest.json"); },
     {"manifest.json is missing"}},
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
     {"manifest.json", "its checksum does not match"}},
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
  for (const std::uint32_t count : {1U, 2U, 3U}) {
    SCOPED_TRACE(std::to_string(count) + " ranks");
    fs::remove_all(options().folder);
    save(2, {11, 22});
    const fs::path newer = saved().at(0).path;
    GetParam().done(newer, saved().at(1).path);
    const std::string why = corruption([&] { verify_checkpoint(newer); });
    for (const std::string& each : GetParam().says) EXPECT_SAYS(why, each);
    run_threads(count, {}, [&](Communicator& ranks) {
      Checkpoints checkpoints{ranks, options()};
      PlainModel model{ranks.rank(), count};
      EXPECT_EQ(checkpoints.load(model.state())->step, 11U);
      model.expect(11, ranks.rank() < 2);
    });
    EXPECT_EQ(aside(), std::vector{fs::path{newer.string() + ".aside"}});
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
  EXPECT_SAYS(corruption([&] { load(model); }), "they are gone");
}

/// A checkpoint that has lost its manifest is not taken for an interrupted save.
TEST_F(CheckpointFolder, WhoseManifestIsLostKeepsItsParts) {
  save(2, {11, 22});
  fs::remove(saved().at(0).path / "manifest.json");
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options(1)};
    PlainModel model{ranks.rank(), 2};
    EXPECT_EQ(checkpoints.load(model.state())->step, 11U);
    checkpoints.save(model.state(), {.step = 12});
    checkpoints.finish();
  });
  EXPECT_EQ(steps(), std::vector<std::uint64_t>{12});
  ASSERT_EQ(aside().size(), 1U);
  for (const char* const file : {"rank-00000.safetensors", "rank-00001.safetensors"}) {
    EXPECT_TRUE(fs::exists(aside()[0] / file)) << file;
  }
}

TEST_F(CheckpointFolder, DamagedLeavesNoValuesThatAnOlderOneHasNot) {
  save(1, {11});
  save(2, {22});
  flip(part(0, 0), fs::file_size(part(0, 0)) - 100);
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options()};
    PlainModel model{ranks.rank(), 2, 7};
    EXPECT_EQ(checkpoints.load(model.state())->step, 11U);
    model.expect(11, false);
    EXPECT_EQ(model.own(), (std::vector<std::uint64_t>{ranks.rank(), ranks.rank() == 0 ? 11U : 7U}));
  });
}

// ---- Errors that say nothing about a checkpoint: no older checkpoint is loaded in its place, and it stays

void make_of_newer_format(const fs::path& manifest) {
  std::string text = bytes_of(manifest);
  text = std::regex_replace(text, std::regex{"pharos checkpoint 1"}, "pharos checkpoint 2");
  const std::size_t begin = text.find("{\"format\"");
  const std::string_view content = std::string_view{text}.substr(begin, text.size() - begin - 2);
  std::array<char, 17> sum{};
  std::snprintf(sum.data(), sum.size(), "%016llx",
                static_cast<unsigned long long>(object_store::checksum_of(std::as_bytes(std::span{content}))));
  write(manifest,
        std::regex_replace(text, std::regex{"[0-9a-f]{16}"}, sum.data(), std::regex_constants::format_first_only));
}

TEST_F(CheckpointFolder, OfANewerFormatIsNoDamage) {
  save(2, {11, 22});
  const fs::path newest = saved().at(0).path;
  make_of_newer_format(newest / "manifest.json");
  const std::string text = bytes_of(newest / "manifest.json");
  run_threads(2, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options()};
    PlainModel model{ranks.rank(), 2};
    const std::string why = message_of<Exception>([&] { checkpoints.load(model.state()); });
    EXPECT_SAYS(why, "loading " + newest.string());
    EXPECT_SAYS(why, "its format is \"pharos checkpoint 2\"");
  });
  EXPECT_TRUE(aside().empty());
  EXPECT_EQ(bytes_of(newest / "manifest.json"), text);
}

TEST_F(CheckpointFolder, OfANewerFormatIsPerhapsTheBest) {
  save(1, {5});
  make_of_newer_format(saved().at(0).path / "manifest.json");
  Checkpoints checkpoints{Communicator::alone(), {.folder = options().folder, .keep_last = 1, .keep_best = 1}};
  PlainModel model{0, 1};
  for (const std::uint64_t step : {6, 7}) {
    checkpoints.save(model.state(), {.step = step, .metrics = {{"loss", 1.0 / double(step)}}});
  }
  checkpoints.finish();
  EXPECT_EQ(steps(), std::vector<std::uint64_t>{7});
  EXPECT_EQ(folders(), 2U) << "with the one that cannot be compared";
}

/// Lets this process open only so many more files.
class OpenFilesLimit {
 public:
  explicit OpenFilesLimit(int more) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const int next = ::dup(0);
    ::close(next);
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(next + more);
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  ~OpenFilesLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  OpenFilesLimit(OpenFilesLimit&&) = delete;

 private:
  rlimit before_{};
};

TEST_F(CheckpointFolder, TooManyOpenFilesAreNoDamage) {
  save(2, {11, 22});
  run_processes(1, {}, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options()};
    PlainModel model{0, 1};
    const State state = model.state();
    // Opening fails when the folder is read, or when one part is open and the other is to be opened.
    for (const int more : {0, 1}) {
      std::exception_ptr thrown;
      {
        const OpenFilesLimit limit{more};
        try {
          checkpoints.load(state);
        } catch (...) {
          thrown = std::current_exception();
        }
      }
      // The error is looked at only after the limit has ended, because a sanitizer that looks at the object opens a
      // pipe.
      const auto again = [&] {
        if (thrown) std::rethrow_exception(thrown);
      };
      EXPECT_SAYS(message_of<Exhausted>(again), "Too many open files");
    }
    EXPECT_TRUE(aside().empty());
    EXPECT_EQ(checkpoints.load(state)->step, 22U);
    model.expect(22, false);
  });
}

/// Errors of rank 0 alone: all ranks throw them, and no rank is taken for dead.
TEST_F(CheckpointFolder, FolderThatCannotBeLookedAtIsNoDeath) {
  const auto make_loop = [&](const char* name) { fs::create_symlink(name, options().folder / name); };
  fs::create_directories(options().folder);
  make_loop("newest");
  run_threads(2, kQuick, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options()};
    PlainModel model{ranks.rank(), 2};
    const std::string why = message_of<FailedPrecondition>([&] { checkpoints.load(model.state()); });
    EXPECT_SAYS(why, "rank 0: looking into");
  });
  make_loop("step-000000000001-0123abcd");
  run_threads(2, kQuick, [&](Communicator& ranks) {
    EXPECT_SAYS(message_of<FailedPrecondition>([&] { Checkpoints{ranks, options()}; }), "rank 0: looking into");
  });
}

// ---- Each byte

TEST_F(CheckpointFolder, RefusesEachFlippedByteOfItsManifestAndParts) {
  std::mt19937 random{static_cast<unsigned>(seed_of_test())};
  save(2, {1});
  const fs::path checkpoint = saved().at(0).path;
  for (const char* const file : {"manifest.json", "rank-00000.safetensors", "rank-00001.safetensors"}) {
    const std::string right = bytes_of(checkpoint / file);
    const auto refuses_flipped = [&](std::size_t place, unsigned bit) {
      std::string bytes = right;
      bytes[place] = static_cast<char>(bytes[place] ^ (1U << bit));
      write(checkpoint / file, bytes);
      EXPECT_THROW(verify_checkpoint(checkpoint), Exception) << file << " at " << place << ", bit " << bit;
    };
    // The first bytes are tried one by one, because a manifest has its own checksum there and a part the length of its
    // head.
    for (std::size_t place = 0; place < 48; ++place) {
      for (unsigned bit = 0; bit < 8; ++bit) refuses_flipped(place, bit);
    }
    for (int round = 0; round < 100; ++round) refuses_flipped(random() % right.size(), random() % 8);
    write(checkpoint / file, right);
  }
  verify_checkpoint(checkpoint);
}

// ---- Resuming from an older checkpoint: newer checkpoints belong to a past that no longer counts

/// The parameter is keep_last.
class GoneBack : public CheckpointFolder, public testing::WithParamInterface<std::size_t> {
 protected:
  /// Starts a training again, which saves steps with these losses. Returns the step that it began with.
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
  /// The newest of these steps, as many as keep_last keeps.
  std::vector<std::uint64_t> kept_of(std::vector<std::uint64_t> steps) const {
    steps.resize(std::min(steps.size(), GetParam()));
    return steps;
  }
  void damage(std::size_t checkpoint) const { flip(part(checkpoint, 1), fs::file_size(part(checkpoint, 1)) - 100); }
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
  // As if the process had been killed between setting the first one aside and the next.
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
  // The checkpoints that were set aside are whole: they count again if they get their names back.
  ASSERT_EQ(aside().size(), 2U);
  for (const fs::path& each : aside()) verify_checkpoint(each);
}

INSTANTIATE_TEST_SUITE_P(KeepLast, GoneBack, testing::Values(1U, 2U));

TEST_F(CheckpointFolder, RankThatLoadsLongerIsNoDeath) {
  save(2, {1});
  run_threads(2, kQuick, [&](Communicator& ranks) {
    Checkpoints checkpoints{ranks, options()};
    PlainModel model{ranks.rank(), 2};
    State state = model.state();
    if (ranks.rank() == 1) {
      const auto slow = [](std::span<const std::byte>) { std::this_thread::sleep_for(3 * kQuick.timeout); };
      state.add(State::Value{.name = "own@0", .load = slow});
    }
    ASSERT_TRUE(checkpoints.load(state));
    model.expect(1);
  });
}

}  // namespace
}  // namespace pharos::ml

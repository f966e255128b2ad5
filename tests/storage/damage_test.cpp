#include <fstream>
#include <iterator>
#include <tuple>

#include "store_test.hpp"
#include "temporary_folder.hpp"
#include "unprivileged.hpp"

// A store is recovered after a crash. A store whose files were changed on disk is refused, and the error names the
// file.

namespace pharos::storage {
namespace {

namespace fs = std::filesystem;

std::string read_file(const fs::path& file) {
  std::ifstream in{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}

void write_file(const fs::path& file, const std::string& bytes) {
  std::ofstream{file, std::ios::binary | std::ios::trunc} << bytes;
}

/// A closed store. Each test damages a copy of its files.
class DamageTest : public StoreTest {
 protected:
  static constexpr int kBatches = 8;

  /// Writes batches 0 to kBatches - 1, each of two pairs, to the write-ahead log.
  void make_log() {
    const auto store = must_open(original());
    for (int i = 0; i < kBatches; ++i) {
      const auto n = std::to_string(i);
      ASSERT_TRUE(run(store->write(std::move(Batch{}.put("a" + n, n).put("b" + n, n)), soon())).ok());
    }
  }
  /// Writes the same batches to a table: opening the store moves them from the log to a table.
  void make_table() {
    make_log();
    must_open(original());
  }

  fs::path original() const { return folder_.path() / "original"; }

  /// Returns the name of the only nonempty file of the store with that prefix or extension.
  std::string name_of(const std::string& part) const {
    std::string name;
    for (const auto& entry : fs::directory_iterator{original()}) {
      const auto candidate = entry.path().filename().string();
      const bool matches = candidate.starts_with(part) || candidate.ends_with(part);
      if (matches && entry.file_size() > 0) name = candidate;
    }
    PHAROS_CHECK(!name.empty(), part);
    return name;
  }

  /// Opens a fresh copy of the store, in which the file `name` holds `bytes`.
  Result<std::unique_ptr<KvStore>> open_with(const std::string& name, const std::string& bytes) {
    fresh_copy();
    write_file(copy() / name, bytes);
    return open_rocksdb(copy());
  }
  void fresh_copy() {
    fs::remove_all(copy());
    fs::copy(original(), copy());
  }
  fs::path copy() const { return folder_.path() / "copy"; }

  /// Expects that the store was refused as damaged, and that the error names the file.
  void expect_refused(const Result<std::unique_ptr<KvStore>>& opened, const std::string& name) {
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code(), ErrorCode::kCorrupt) << opened.error().to_string();
    EXPECT_NE(opened.error().to_string().find(name), std::string::npos) << opened.error().to_string();
  }

  void expect_every_flip_is_noticed(const std::string& name, std::size_t step = 1) {
    const auto bytes = read_file(original() / name);
    ASSERT_FALSE(bytes.empty());
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      SCOPED_TRACE(name + " byte " + std::to_string(at) + " of " + std::to_string(bytes.size()));
      auto flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
      expect_refused(open_with(name, flipped), name);
    }
  }

  /// Returns n if the store holds exactly the whole batches 0 to n - 1; otherwise nullopt.
  std::optional<int> prefix_in(KvStore& store) {
    const auto found = contents(store);
    int batches = 0;
    while (found.contains("a" + std::to_string(batches)) && found.contains("b" + std::to_string(batches))) ++batches;
    if (found.size() != static_cast<std::size_t>(2 * batches)) return std::nullopt;
    return batches;
  }

  TemporaryFolder folder_;
};

TEST_F(DamageTest, EveryChangedBitOfTheWriteAheadLogIsNoticed) {
  make_log();
  expect_every_flip_is_noticed(name_of(".log"));
}

TEST_F(DamageTest, EveryChangedLengthInTheWriteAheadLogIsNoticed) {
  make_log();
  const auto name = name_of(".log");
  const auto bytes = read_file(original() / name);
  std::size_t at = 0;
  for (int record = 0; record < kBatches; ++record) {
    const auto length = static_cast<unsigned char>(bytes[at + 4]);
    for (int bit = 0; bit < 16; ++bit) {
      auto changed = bytes;
      auto& byte = changed[at + 4 + static_cast<std::size_t>(bit / 8)];
      byte = static_cast<char>(byte ^ (1 << (bit % 8)));
      SCOPED_TRACE("bit " + std::to_string(bit) + " of the length of record " + std::to_string(record));
      expect_refused(open_with(name, changed), name);
    }
    at += 7u + length;
  }
}

TEST_F(DamageTest, EveryChangedBitOfTheManifestIsNoticed) {
  make_table();
  expect_every_flip_is_noticed(name_of("MANIFEST-"));
}

TEST_F(DamageTest, EveryChangedBitOfATableIsNoticed) {
  make_table();
  expect_every_flip_is_noticed(name_of(".sst"), 3);
}

TEST_F(DamageTest, EveryChangedBitOfCurrentIsNoticed) {
  make_table();
  const auto bytes = read_file(original() / "CURRENT");
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    SCOPED_TRACE(at);
    auto flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 1);
    expect_refused(open_with("CURRENT", flipped), folder_.path().string());
  }
}

TEST_F(DamageTest, ALostPageInTheMiddleOfALogIsNoticed) {
  make_log();
  const auto name = name_of(".log");
  auto bytes = read_file(original() / name);
  const auto header = bytes.size() / 2;
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(header), 40, '\0');
  expect_refused(open_with(name, bytes), name);
}

TEST_F(DamageTest, AFileThatIsGoneIsNoticedAndNeverReplacedByAnEmptyStore) {
  make_table();
  for (const std::string& name : {std::string{"CURRENT"}, name_of("MANIFEST-"), name_of(".sst")}) {
    SCOPED_TRACE(name);
    fresh_copy();
    fs::remove(copy() / name);
    // RocksDB also looks for a table by its older extension, and its error names the file with that extension.
    const auto stem = fs::path{name}.stem().string();
    expect_refused(open_rocksdb(copy()), stem);
    expect_refused(open_rocksdb(copy()), stem);  // nor does a second try succeed
  }
}

TEST_F(DamageTest, AFileThatCannotBeReadIsNotSaidToBeMissing) {
  make_log();
  const auto expect_not_read = [&](ErrorCode code, const std::string& name) {
    SCOPED_TRACE(name);
    const auto opened = open_rocksdb(copy());
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().code(), code) << opened.error().to_string();
    EXPECT_NE(opened.error().message().find(name), std::string::npos) << opened.error().to_string();
  };
  for (const std::string& name : {std::string{"CURRENT"}, name_of("MANIFEST-")}) {
    fresh_copy();
    fs::remove(copy() / name);
    fs::create_symlink(name, copy() / name);  // a link to itself
    expect_not_read(ErrorCode::kUnavailable, name);
  }
  fresh_copy();
  for (const fs::path& folder : {folder_.path(), copy()}) fs::permissions(folder, fs::perms::all);
  for (const auto& entry : fs::directory_iterator{copy()}) fs::permissions(entry.path(), fs::perms::all);
  fs::permissions(copy() / "CURRENT", fs::perms::none);
  const Unprivileged unprivileged;
  expect_not_read(ErrorCode::kPermissionDenied, "CURRENT");
}

TEST_F(DamageTest, AWriteAheadLogThatIsGoneIsNoticed) {
  make_log();
  fresh_copy();
  fs::remove(copy() / name_of(".log"));
  expect_refused(open_rocksdb(copy()), ".log");
}

TEST_F(DamageTest, ALogCutOffAnywhereIsRecoveredToAPrefixOfWholeBatches) {
  make_log();
  const auto name = name_of(".log");
  const auto bytes = read_file(original() / name);
  int last = -1;
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    SCOPED_TRACE("cut to " + std::to_string(length) + " of " + std::to_string(bytes.size()) + " bytes");
    const auto opened = open_with(name, bytes.substr(0, length));
    ASSERT_TRUE(opened.ok()) << opened.error().to_string();
    const auto batches = prefix_in(**opened);
    ASSERT_TRUE(batches.has_value());
    ASSERT_GE(*batches, last);
    last = *batches;
  }
  EXPECT_EQ(last, kBatches);
}

TEST_F(DamageTest, ATornTailOfALargeBatchIsDroppedWhole) {
  {
    const auto store = must_open(original());
    ASSERT_TRUE(run(store->write(std::move(Batch{}.put("a0", "0").put("b0", "0")), soon())).ok());
    const std::string large(200 << 10, 'x');  // seven blocks of the log
    ASSERT_TRUE(run(store->write(std::move(Batch{}.put("a1", large).put("b1", "1")), soon())).ok());
  }
  const auto name = name_of(".log");
  const auto bytes = read_file(original() / name);
  for (std::size_t cut = 1; cut < bytes.size() - 1000; cut += 9973) {
    SCOPED_TRACE(cut);
    const auto opened = open_with(name, bytes.substr(0, bytes.size() - cut));
    ASSERT_TRUE(opened.ok()) << opened.error().to_string();
    EXPECT_EQ(prefix_in(**opened), 1);
  }
}

TEST_F(DamageTest, ZerosAfterTheLastRecordAreATornTail) {
  make_log();
  const auto name = name_of(".log");
  const auto opened = open_with(name, read_file(original() / name) + std::string(4096, '\0'));
  ASSERT_TRUE(opened.ok()) << opened.error().to_string();
  EXPECT_EQ(prefix_in(**opened), kBatches);
}

TEST_F(DamageTest, WhatIsRecoveredFromATornTailGoesOnAsUsual) {
  make_log();
  const auto name = name_of(".log");
  const auto bytes = read_file(original() / name);
  {
    const auto opened = open_with(name, bytes.substr(0, bytes.size() - 1));
    ASSERT_TRUE(opened.ok());
    ASSERT_TRUE(put(**opened, "after", "1").ok());
  }
  const auto again = must_open(copy());
  EXPECT_EQ(get(*again, "after"), "1");
  EXPECT_EQ(contents(*again).size(), 2u * (kBatches - 1) + 1);
}

TEST_F(DamageTest, ASecondOpenIsRefusedAndNamesTheFolder) {
  const auto store = must_open(original());
  const auto second = open_rocksdb(original());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_NE(second.error().message().find(original().string()), std::string::npos);
  EXPECT_TRUE(put(*store, "still", "here").ok());
}

TEST_F(DamageTest, AfterClosingItMayBeOpenedAgain) {
  must_open(original());
  EXPECT_TRUE(open_rocksdb(original()).ok());
}

}  // namespace
}  // namespace pharos::storage

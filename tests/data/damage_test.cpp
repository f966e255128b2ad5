// Damaged files, and the errors that name them.

#include <algorithm>
#include <random>

#include "data_files.hpp"
#include "says.hpp"
#include "seed.hpp"

namespace pharos::ml {
namespace {

/// Where a file that ends too early is still a valid file.
enum class Cut : std::uint8_t { kNever, kAtWholeTokens, kAtRecords, kAnywhere };

struct Reader {
  const char* name;
  void (*read)(const fs::path& path);
  Cut cut = Cut::kNever;
  bool has_lines = false;
};

const Reader kReaders[] = {{"f4.npy", [](const fs::path& path) { read_npy(path); }},
                           {"columns.npy", [](const fs::path& path) { read_npy(path); }},
                           {"uint8.idx", [](const fs::path& path) { read_idx(path); }},
                           {"int16.idx", [](const fs::path& path) { read_idx(path); }},
                           {"float64.idx", [](const fs::path& path) { read_idx(path); }},
                           {"cifar10.bin", [](const fs::path& path) { read_cifar10({path}); }, Cut::kAtRecords},
                           {"six.safetensors", [](const fs::path& path) { SafeTensors::read(path); }},
                           {"state_dict.pt", [](const fs::path& path) { read_torch(path); }},
                           {"checkpoint.pt", [](const fs::path& path) { read_torch(path); }},
                           {"tokens.bin", [](const fs::path& path) { read_tokens(path); }, Cut::kAtWholeTokens},
                           {"excel.csv", [](const fs::path& path) { read_csv(path); }, Cut::kAnywhere, true},
                           {"unix.csv", [](const fs::path& path) { read_csv(path); }, Cut::kAnywhere, true},
                           {"ascii.jsonl", [](const fs::path& path) { read_json_lines(path); }, Cut::kAnywhere, true},
                           {"utf8.jsonl", [](const fs::path& path) { read_json_lines(path); }, Cut::kAnywhere, true}};

class DamagedFiles : public InFolder {
 protected:
  /// Returns whether the file was refused, by an Exception that names the file, and the line if the format has lines.
  bool is_refused(const Reader& reader, const std::string& content) const {
    const fs::path path = write("damaged", content);
    try {
      reader.read(path);
      return false;
    } catch (const Exception& e) {
      const std::string said = e.what();
      EXPECT_TRUE(e.code() == ErrorCode::kCorrupt || e.code() == ErrorCode::kUnsupported)
          << reader.name << ": " << said;
      EXPECT_SAYS(said, path.string() + ": ");
      const bool has_a_line = content.find_first_not_of("\r\n") != std::string::npos;
      if (reader.has_lines && has_a_line) {
        EXPECT_SAYS(said, ": line ");
      }
      return true;
    }
  }
};

TEST_F(DamagedFiles, ThatEndTooEarlyAreRefused) {
  for (const Reader& reader : kReaders) {
    const std::string whole = content_of(file(reader.name));
    const std::size_t step = whole.size() > 3000 ? 7 : 1;
    std::size_t read = 0;
    for (std::size_t size = 0; size < whole.size(); size += step) {
      if (!is_refused(reader, whole.substr(0, size))) ++read;
    }
    EXPECT_TRUE(is_refused(reader, "") || reader.cut == Cut::kAtWholeTokens) << reader.name;
    switch (reader.cut) {
      case Cut::kNever: EXPECT_EQ(read, 0U) << reader.name; break;
      // The token file without a head is valid at each whole token.
      case Cut::kAtWholeTokens: EXPECT_EQ(read, 512U) << reader.name; break;
      case Cut::kAtRecords: EXPECT_EQ(read, 1U) << reader.name; break;
      case Cut::kAnywhere: EXPECT_LT(read, whole.size()) << reader.name; break;
    }
    EXPECT_FALSE(is_refused(reader, whole)) << reader.name;
  }
}

TEST_F(DamagedFiles, AreRefusedOrReadAndNothingElse) {
  std::mt19937_64 random{seed_of_test()};
  for (const Reader& reader : kReaders) {
    const std::string whole = content_of(file(reader.name));
    std::size_t refusals = 0;
    for (int i = 0; i < 400; ++i) {
      std::string damaged = whole;
      for (std::uint64_t n = random() % 3 + 1; n > 0; --n) {
        damaged[random() % damaged.size()] = static_cast<char>(random());
      }
      if (i % 4 == 0) damaged.resize(random() % damaged.size());
      if (is_refused(reader, damaged)) ++refusals;
    }
    EXPECT_GT(refusals, 20U) << reader.name;
  }
}

/// Returns where the bytes of a file in an archive begin, and how many there are.
std::pair<std::size_t, std::size_t> place_in_zip(const std::string& archive, const std::string& name) {
  const std::size_t name_at = archive.find(name);
  std::uint16_t extra = 0;
  std::memcpy(&extra, archive.data() + name_at - 2, sizeof extra);
  const std::size_t begin = name_at + name.size() + extra;
  return {begin, archive.find("PK", begin) - begin};
}

/// Only the checksums of the archive show this damage; without them the file would have other numbers.
TEST_F(DamagedFiles, OfPyTorchAreRefusedForEachByteOfTheirNumbers) {
  const std::string whole = content_of(file("state_dict.pt"));
  for (const std::string name : {"state_dict/data/0", "state_dict/data/6"}) {
    const auto [begin, bytes] = place_in_zip(whole, name);
    ASSERT_GE(bytes, 8U);
    ASSERT_LT(bytes, 200U);
    for (const std::size_t place : {begin, begin + 7}) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string damaged = whole;
        damaged[place] = static_cast<char>(damaged[place] ^ (1 << bit));
        const fs::path path = write("damaged.pt", damaged);
        const std::string said = refused(ErrorCode::kCorrupt, [&] { read_torch(path); });
        EXPECT_SAYS(said, "damaged.pt: the bytes of " + name + " are damaged: their checksum does not match");
      }
    }
  }
}

TEST_F(DamagedFiles, OfTextAreRefusedWithTheLine) {
  const auto csv = [&](const std::string& content) {
    return refused(ErrorCode::kCorrupt, [&] { read_csv(write("t.csv", content)); });
  };
  const auto json = [&](const std::string& content) {
    return refused(ErrorCode::kCorrupt, [&] { read_json_lines(write("t.jsonl", content)); });
  };
  EXPECT_SAYS(csv("a,b\n\"1\n1\",2\n\n3\n"), "t.csv: line 5 has 1 fields");
  EXPECT_SAYS(csv("a,b\r\n1,2\r\n3,\"4\r\n5,6\r\n"), "t.csv: line 3: a quote is not closed");
  EXPECT_SAYS(csv("a,b\n1,2\n3,\"4\n4\"4\n"), "t.csv: line 4: something follows");
  EXPECT_SAYS(csv("a,b,a\n1,2,3\n"), "t.csv: line 1 has two columns");
  EXPECT_SAYS(json("{\"a\": 1}\n\n{\"a\": 2\n"), "t.jsonl: line 3 is no JSON object");
  EXPECT_SAYS(json("{\"a\": 1}\n{\"a\": \"\xff\"}\n"), "t.jsonl: line 2 is no JSON object");
  EXPECT_SAYS(json("{\"a\": 1}\n{\"a\": 1e999}\n"), "t.jsonl: line 2 is no JSON object");
}

TEST_F(DamagedFiles, ThatAreNotThereOrNoFilesAreNamed) {
  for (const Reader& reader : kReaders) {
    const fs::path none = folder_.path() / "none";
    EXPECT_SAYS(refused(ErrorCode::kNotFound, [&] { reader.read(none); }), none.string());
    EXPECT_SAYS(refused(ErrorCode::kInvalidArgument, [&] { reader.read(folder_.path()); }), folder_.path().string());
  }
}

}  // namespace
}  // namespace pharos::ml

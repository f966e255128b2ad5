// Files of torch.save(), and pickles that would make objects of too many bytes.

#include <algorithm>
#include <cstring>
#include <utility>

#include "data_files.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

const Array& named(const std::vector<NamedArray>& arrays, const std::string& name) {
  const auto found = std::ranges::find(arrays, name, &NamedArray::name);
  if (found == arrays.end()) throw std::runtime_error{"there is no " + name};
  return found->array;
}

TEST(TorchFile, AStateDictIsWhatPyTorchHasSaved) {
  const Json expected = json_in("state_dict.json");
  const std::vector<NamedArray> read = read_torch(file("state_dict.pt"));
  ASSERT_EQ(read.size(), expected.size());
  for (const auto& [name, values] : expected.items()) {
    EXPECT_EQ(numbers_of(named(read, name)), values.get<std::vector<double>>()) << name;
  }
  EXPECT_EQ(named(read, "0.weight").shape(), (std::vector<std::int64_t>{4, 3}));
  EXPECT_EQ(named(read, "1.num_batches_tracked").dtype(), DType::kI64);
}

TEST(TorchFile, ACheckpointsTensorsAndNumbersHaveTheKeysOnTheWayToThem) {
  const std::vector<NamedArray> read = read_torch(file("checkpoint.pt"));
  EXPECT_EQ(numbers_of(named(read, "turned")), (std::vector<double>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_EQ(numbers_of(named(read, "row")), (std::vector<double>{4, 5, 6, 7}));
  EXPECT_EQ(named(read, "halves").dtype(), DType::kBF16);
  EXPECT_EQ(numbers_of(named(read, "halves")), (std::vector<double>{1.5, -2}));
  EXPECT_EQ(numbers_of(named(read, "epoch")), std::vector<double>{3});
  EXPECT_EQ(numbers_of(named(read, "loss")), std::vector<double>{0.25});
  EXPECT_EQ(numbers_of(named(read, "long")), std::vector<double>{0x1p40});
  EXPECT_EQ(numbers_of(named(read, "parameter")), (std::vector<double>{1, 1}));
  EXPECT_EQ(numbers_of(named(read, "flags")), (std::vector<double>{1, 0}));
  EXPECT_EQ(numbers_of(named(read, "optimizer.state.0.step")), std::vector<double>{1});
  EXPECT_EQ(named(read, "optimizer.state.1.exp_avg").shape(), std::vector<std::int64_t>{4});
  EXPECT_EQ(numbers_of(named(read, "optimizer.param_groups.0.lr")), std::vector<double>{0.5});
  const Json expected = json_in("checkpoint.json");
  for (const auto& [name, values] : expected.items()) {
    EXPECT_EQ(numbers_of(named(read, "model." + name)), values.get<std::vector<double>>()) << name;
  }
}

/// The file was written with torch.serialization.set_crc32_options(False).
TEST(TorchFile, ThatHasNoChecksumsIsRead) {
  const std::vector<NamedArray> read = read_torch(file("no_checksums.pt"));
  EXPECT_EQ(numbers_of(named(read, "turned")), (std::vector<double>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  EXPECT_EQ(numbers_of(named(read, "short")), (std::vector<double>{-32768, 32767}));
  EXPECT_EQ(numbers_of(named(read, "size.1")), std::vector<double>{4});
  EXPECT_EQ(numbers_of(named(read, "list.1.0")), std::vector<double>{2.5});
  EXPECT_EQ(numbers_of(named(read, "list.1.1.3")), (std::vector<double>{1, 1}));
}

TEST(TorchFile, WhatIsNoTensorIsRefusedByNameAndNotRun) {
  EXPECT_SAYS(refused(ErrorCode::kUnsupported, [] { read_torch(file("not_tensors.pt")); }), "pathlib");
}

/// The bytes of a number, as many as its type has.
template <class Number>
std::string bytes_of(Number number) {
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}
std::string bytes_of_16(std::size_t number) {
  return bytes_of(static_cast<std::uint16_t>(number));
}
std::string bytes_of_32(std::size_t number) {
  return bytes_of(static_cast<std::uint32_t>(number));
}

/// Returns a zip archive without checksums.
std::string zipped(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string archive;
  std::string directory;
  for (const auto& [name, content] : files) {
    const std::string sizes = bytes_of_32(content.size()) + bytes_of_32(content.size()) + bytes_of_16(name.size());
    directory += "PK\1\2" + std::string(16 - 4, '\0') + bytes_of_32(0) + sizes + std::string(42 - 30, '\0') +
                 bytes_of_32(archive.size()) + name;
    archive += "PK\3\4" + std::string(14 - 4, '\0') + bytes_of_32(0) + sizes + bytes_of_16(0) + name + content;
  }
  return archive + directory + "PK\5\6" + bytes_of_32(0) + bytes_of_16(files.size()) + bytes_of_16(files.size()) +
         bytes_of_32(directory.size()) + bytes_of_32(archive.size()) + bytes_of_16(0);
}

// Parts of a pickle of Python.
std::string whole(std::size_t number) {
  return 'J' + bytes_of_32(number);
}
std::string text(const std::string& own) {
  return 'X' + bytes_of_32(own.size()) + own;
}
std::string tuple(const std::vector<std::string>& parts) {
  std::string tuple = "(";
  for (const std::string& each : parts) tuple += each;
  return tuple + 't';
}
std::string memory(const std::string& type, std::size_t size, const std::string& key = "0") {
  return tuple({text("storage"), "ctorch\n" + type + "Storage\n", text(key), text("cpu"), whole(size)}) + 'Q';
}
std::string tensor(const std::string& memory, std::size_t size, std::size_t stride) {
  return "ctorch._utils\n_rebuild_tensor_v2\n" +
         tuple({memory, whole(0), tuple({whole(size)}), tuple({whole(stride)})}) + 'R';
}
std::string repeated(const std::string& part, std::size_t times) {
  std::string all;
  for (; times > 0; --times) all += part;
  return all;
}
std::string list(const std::string& items) {
  return "](" + items + 'e';
}

class MadeTorchFiles : public InFolder {
 protected:
  std::vector<NamedArray> read(const std::string& pickle, const std::string& memory = {}) const {
    return read_torch(
        write("made.pt", zipped({{"made/data.pkl", "\x80\x02" + pickle + '.'}, {"made/data/0", memory}})));
  }
  std::string refusal(const std::string& pickle, const std::string& memory = {}) const {
    return refused(ErrorCode::kCorrupt, [&] { read(pickle, memory); });
  }
};

constexpr const char* kTooMuch = "made.pt: its pickle needs far more memory than a file of this size may";
constexpr std::size_t kElements = 500'000;

TEST_F(MadeTorchFiles, AreReadWhereTheyMakeWhatTheyHave) {
  const std::string bytes(2 * kElements, '\1');
  const auto widened = read(list(repeated(tensor(memory("Short", kElements), kElements, 1), 3)), bytes);
  ASSERT_EQ(widened.size(), 3U);
  EXPECT_EQ(widened[2].name, "2");
  EXPECT_EQ(widened[2].array.values<std::int32_t>()[kElements - 1], 257);
  const auto apart = read(tensor(memory("Half", kElements), kElements / 2, 2), bytes);
  EXPECT_EQ(apart[0].array.rows(), kElements / 2);
  EXPECT_EQ(read(list(repeated("K\5", 1'000'000))).size(), 1'000'000U);
}

TEST_F(MadeTorchFiles, ThatTurnTheSameMemoryAgainAndAgainAreRefused) {
  const std::string bytes(2 * kElements, '\1');
  EXPECT_SAYS(refusal(list(repeated(tensor(memory("Short", kElements), kElements, 1), 200)), bytes), kTooMuch);
  EXPECT_SAYS(refusal(list(repeated(tensor(memory("Half", kElements), kElements / 2, 2), 400)), bytes), kTooMuch);
}

TEST_F(MadeTorchFiles, ThatNameTheSameAgainAndAgainAreRefused) {
  const std::string kept = std::string{'q'};
  const std::string long_text = text(std::string(1'000'000, 'k'));
  // A dictionary with a long key, whose value is a list of many numbers.
  EXPECT_SAYS(refusal("}(" + long_text + list(repeated("K\5", 1000)) + 'u'), kTooMuch);
  // A storage with a long name that is used again and again.
  const std::string again = tuple({text("storage"), "ctorch\nHalfStorage\n", "h\1", text("cpu"), whole(1)}) + "Q0";
  EXPECT_SAYS(refusal(long_text + kept + '\1' + repeated(again, 1000)), kTooMuch);
  // A long list of which a torch.Size is made again and again.
  const std::string sizes = list(repeated("K\5", 100'000)) + kept + '\1' + "ctorch\nSize\n" + kept + '\2';
  EXPECT_SAYS(refusal(sizes + repeated("h\2h\1\x85R0", 1000)), kTooMuch);
  // Tuples that have the previous tuple twice.
  std::string nested = "K\5";
  for (int depth = 1; depth < 30; ++depth) {
    nested += kept + static_cast<char>(depth) + 'h' + static_cast<char>(depth) + '\x86';
  }
  EXPECT_SAYS(refusal(nested), kTooMuch);
}

TEST_F(MadeTorchFiles, OfTooManyDimensionsAreRefused) {
  const std::string lengths = '(' + repeated(whole(1), 65) + 't';
  EXPECT_SAYS(
      refusal("ctorch._utils\n_rebuild_tensor_v2\n" + tuple({memory("Half", 1), whole(0), lengths, lengths}) + 'R',
              "ab"),
      "a tensor of 65 dimensions");
}

}  // namespace
}  // namespace pharos::ml

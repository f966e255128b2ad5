// Arrays that were read lie in the mapped file or in memory of their own.

#include <functional>

#include "data_files.hpp"
#include "mapping.hpp"

namespace pharos::ml {
namespace {

std::string file_at(const Array& array) {
  return mapping_at(array.bytes().data()).path;
}

using Read = std::function<std::vector<NamedArray>(const fs::path& path, Keep keep)>;

struct Kept {
  const char* name;
  Read read;
  bool stays = true;  ///< the file has the array in the layout of memory, so that it can stay in the file
};

std::vector<Kept> all_kept() {
  const Read npy = [](const fs::path& path, Keep keep) -> std::vector<NamedArray> {
    return {{"", read_npy(path, keep)}};
  };
  const Read idx = [](const fs::path& path, Keep keep) -> std::vector<NamedArray> {
    return {{"", read_idx(path, keep)}};
  };
  const Read cifar10 = [](const fs::path& path, Keep keep) -> std::vector<NamedArray> {
    const Labelled read = read_cifar10({path}, keep);
    return {{"samples", read.samples}, {"labels", read.labels}};
  };
  const Read safetensors = [](const fs::path& path, Keep keep) { return SafeTensors::read(path, keep).tensors(); };
  const Read torch = [](const fs::path& path, Keep keep) { return read_torch(path, keep); };
  return {{"f4.npy", npy},           {"u1.npy", npy},
          {"i8.npy", npy},           {"uint8.idx", idx},
          {"int8.idx", idx},         {"cifar10.bin", cifar10},
          {"state_dict.pt", torch},  {"big_f4.npy", npy, false},
          {"u2.npy", npy, false},    {"columns.npy", npy, false},
          {"int16.idx", idx, false}, {"float32.idx", idx, false}};
}

TEST(Keep, MappedArraysAreTheFileAndThoseInMemoryHaveTheSameNumbers) {
  for (const Kept& each : all_kept()) {
    SCOPED_TRACE(each.name);
    const fs::path path = fs::canonical(file(each.name));
    const std::vector<NamedArray> mapped = each.read(path, Keep::kMapped);
    EXPECT_EQ(is_mapped(path), each.stays);
    const std::vector<NamedArray> in_memory = each.read(path, Keep::kInMemory);
    ASSERT_EQ(mapped.size(), in_memory.size());
    ASSERT_FALSE(mapped.empty());
    for (std::size_t i = 0; i < mapped.size(); ++i) {
      EXPECT_EQ(mapped[i].name, in_memory[i].name);
      EXPECT_EQ(mapped[i].array.dtype(), in_memory[i].array.dtype());
      EXPECT_EQ(mapped[i].array.shape(), in_memory[i].array.shape());
      EXPECT_EQ(numbers_of(mapped[i].array), numbers_of(in_memory[i].array));
      EXPECT_EQ(file_at(mapped[i].array), each.stays ? path.string() : "");
      EXPECT_EQ(file_at(in_memory[i].array), "");
    }
  }
}

/// In one file some tensors stay in the mapped file, and some are widened in memory.
TEST(Keep, SafeTensorsStayWhereTheyLieWhereThereIsATypeForThem) {
  const fs::path path = fs::canonical(file("six.safetensors"));
  const SafeTensors mapped = SafeTensors::read(path, Keep::kMapped);
  const SafeTensors in_memory = SafeTensors::read(path, Keep::kInMemory);
  for (const char* const name : {"weight", "bias", "steps", "mask", "ids"}) {
    EXPECT_EQ(file_at(mapped[name]), std::string{name} == "ids" ? "" : path.string()) << name;
    EXPECT_EQ(file_at(in_memory[name]), "") << name;
    EXPECT_EQ(numbers_of(mapped[name]), numbers_of(in_memory[name])) << name;
  }
}

TEST(Keep, TokensLieInTheFileForAsLongAsSomebodyHasThem) {
  for (const char* const name : {"plain_tokens.bin", "tokens.bin", "wide_tokens.bin"}) {
    const fs::path path = fs::canonical(file(name));
    const auto all_of = [](const Tokens& tokens) {
      std::vector<std::int64_t> all(tokens.size());
      tokens.copy(0, all);
      return all;
    };
    const Tokens in_memory = read_tokens(path, Keep::kInMemory);
    EXPECT_FALSE(is_mapped(path)) << name;
    {
      const Tokens mapped = read_tokens(path, Keep::kMapped);
      EXPECT_TRUE(is_mapped(path)) << name;
      EXPECT_EQ(all_of(mapped), all_of(in_memory)) << name;
    }
    EXPECT_FALSE(is_mapped(path)) << name;
  }
}

}  // namespace
}  // namespace pharos::ml

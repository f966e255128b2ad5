#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "data_files.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

/// As make_files.py has them.
std::vector<double> threes(std::size_t n) {
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<double>(i * 3 % 120);
  return values;
}

const Array& named(const std::vector<NamedArray>& arrays, const std::string& name) {
  const auto found = std::ranges::find(arrays, name, &NamedArray::name);
  if (found == arrays.end()) throw std::runtime_error{"there is no " + name};
  return found->array;
}

TEST(Npy, OfEachTypeIsWhatNumpyHasWritten) {
  const std::pair<const char*, DType> kFiles[] = {
      {"f2", DType::kF16}, {"f4", DType::kF32}, {"f8", DType::kF64},     {"i1", DType::kI8},
      {"u1", DType::kU8},  {"i2", DType::kI32}, {"u2", DType::kI32},     {"i4", DType::kI32},
      {"u4", DType::kI64}, {"i8", DType::kI64}, {"big_f4", DType::kF32}, {"big_i2", DType::kI32}};
  for (const auto& [name, dtype] : kFiles) {
    for (const Keep keep : {Keep::kMapped, Keep::kInMemory}) {
      const Array array = read_npy(file(std::string{name} + ".npy"), keep);
      EXPECT_EQ(array.dtype(), dtype) << name;
      EXPECT_EQ(array.shape(), (std::vector<std::int64_t>{3, 4})) << name;
      EXPECT_EQ(numbers_of(array), threes(12)) << name;
    }
  }
  EXPECT_EQ(numbers_of(read_npy(file("bool.npy"))), (std::vector<double>{1, 0, 1}));
  EXPECT_EQ(numbers_of(read_npy(file("scalar.npy"))), std::vector<double>{2.5});
  EXPECT_EQ(read_npy(file("scalar.npy")).shape(), std::vector<std::int64_t>{});
  EXPECT_EQ(read_npy(file("long_head.npy")).shape().size(), 21U);
  const Array columns = read_npy(file("columns.npy"));
  EXPECT_EQ(columns.shape(), (std::vector<std::int64_t>{2, 3, 4}));
  EXPECT_EQ(numbers_of(columns), threes(24));
}

TEST(SafeTensorsFile, IsWhatItsLibraryHasWritten) {
  const SafeTensors read = SafeTensors::read(file("six.safetensors"));
  EXPECT_EQ(read.tensors().size(), 6U);
  EXPECT_EQ(read["weight"].shape(), (std::vector<std::int64_t>{4, 5}));
  EXPECT_EQ(numbers_of(read["weight"]), threes(20));
  EXPECT_EQ(read["bias"].dtype(), DType::kF16);
  EXPECT_EQ(numbers_of(read["bias"]), threes(5));
  EXPECT_EQ(numbers_of(read["steps"]), std::vector<double>{7});
  EXPECT_EQ(numbers_of(read["mask"]), (std::vector<double>{1, 0}));
  EXPECT_EQ(numbers_of(read["ids"]), threes(3));
  EXPECT_EQ(read["none"].rows(), 0U);
  const std::map<std::string, std::string> metadata{read.metadata().begin(), read.metadata().end()};
  EXPECT_EQ(metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"who", "you"}}));
  EXPECT_EQ(read.find("wait"), nullptr);
  EXPECT_SAYS(message_of<NotFound>([&] { read["wait"]; }), "no tensor \"wait\"");
}

TEST_F(InFolder, SafeTensorsComeBackAsTheyWere) {
  const SafeTensors from = SafeTensors::read(file("six.safetensors"));
  const fs::path path = folder_.path() / "copy.safetensors";
  write_safetensors(path, from.tensors(), {{"a", "b"}});
  const SafeTensors again = SafeTensors::read(path);
  ASSERT_EQ(again.tensors().size(), from.tensors().size());
  for (std::size_t i = 0; i < from.tensors().size(); ++i) {
    EXPECT_EQ(again.tensors()[i].name, from.tensors()[i].name);
    EXPECT_EQ(again.tensors()[i].array.shape(), from.tensors()[i].array.shape());
    EXPECT_EQ(again.tensors()[i].array.bytes(), from.tensors()[i].array.bytes());
  }
  EXPECT_EQ(again.metadata()[0].second, "b");
  EXPECT_FALSE(fs::exists(path.string() + ".begun"));
  EXPECT_SAYS(message_of<InvalidArgument>([&] {
                write_safetensors(path, {from.tensors()[0], from.tensors()[0]});
              }),
              "two tensors");
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

TEST(TorchFile, WhatIsNoTensorIsRefusedByNameAndNotRun) {
  EXPECT_SAYS(refused(ErrorCode::kUnsupported, [] { read_torch(file("not_tensors.pt")); }), "pathlib");
}

TEST(TokensFile, OfEachWidthAreWhatWasWritten) {
  for (const char* const name : {"plain_tokens.bin", "tokens.bin", "wide_tokens.bin"}) {
    const Tokens tokens = read_tokens(file(name));
    ASSERT_EQ(tokens.size(), 100U) << name;
    std::vector<std::int64_t> all(100);
    tokens.copy(0, all);
    EXPECT_EQ(std::vector<double>(all.begin(), all.end()), threes(100)) << name;
    EXPECT_EQ(tokens[2], 6);
    EXPECT_SAYS(message_of<InvalidArgument>([&] { tokens.copy(99, std::span{all}.first(2)); }), "of 100 tokens");
  }
}

TEST(IdxFile, OfEachTypeIsWhatNumpyReads) {
  const std::map<std::string, DType> kTypes{{"uint8", DType::kU8},  {"int8", DType::kI8},     {"int16", DType::kI32},
                                            {"int32", DType::kI32}, {"float32", DType::kF32}, {"float64", DType::kF64}};
  const Json expected = json_in("idx.json");
  ASSERT_EQ(expected.size(), kTypes.size());
  for (const auto& [name, its] : expected.items()) {
    std::vector<double> values;
    for (const auto& each : its["values"]) values.push_back(std::stod(each.get<std::string>()));
    const Array array = read_idx(file(name));
    EXPECT_EQ(array.dtype(), kTypes.at(its["dtype"])) << name;
    EXPECT_EQ(array.shape(), its["shape"].get<std::vector<std::int64_t>>()) << name;
    EXPECT_EQ(numbers_of(array), values) << name;
  }
}

TEST_F(InFolder, IdxFilesAreReadInEachType) {
  using namespace std::string_literals;
  const auto idx = [&](char type, const std::string& numbers) {
    return write("x.idx", "\0\0"s + type + "\2\0\0\0\1\0\0\0\3"s + numbers);
  };
  EXPECT_EQ(numbers_of(read_idx(idx(8, "\1\2\xff"s))), (std::vector<double>{1, 2, 255}));
  EXPECT_EQ(numbers_of(read_idx(idx(9, "\1\2\xff"s))), (std::vector<double>{1, 2, -1}));
  EXPECT_EQ(numbers_of(read_idx(idx(0x0b, "\0\1\1\0\xff\xfe"s))), (std::vector<double>{1, 256, -2}));
  EXPECT_EQ(numbers_of(read_idx(idx(0x0c, "\0\0\0\1\0\0\1\0\xff\xff\xff\xfe"s))), (std::vector<double>{1, 256, -2}));
  EXPECT_EQ(numbers_of(read_idx(idx(0x0d, "\x3f\x80\0\0\xc0\0\0\0\0\0\0\0"s))), (std::vector<double>{1, -2, 0}));
  const Array array = read_idx(idx(0x0e, "\x3f\xf0\0\0\0\0\0\0\xc0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"s));
  EXPECT_EQ(numbers_of(array), (std::vector<double>{1, -2, 0}));
  EXPECT_EQ(array.shape(), (std::vector<std::int64_t>{1, 3}));
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_idx(idx(8, "\1\2"s)); }), "fewer than u8 (1, 3)");
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_idx(idx(8, "\1\2\3\4"s)); }), "1 bytes behind");
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_idx(idx(7, "\1\2\3"s)); }), "type 7");
  EXPECT_SAYS(refused(ErrorCode::kUnsupported, [&] { read_idx(write("x.gz", "\x1f\x8b\x08"s)); }), "gunzip");
  EXPECT_SAYS(message_of<NotFound>([&] { read_idx(folder_.path() / "none"); }), "none");
}

TEST(Cifar10File, IsWhatNumpyReads) {
  const Json expected = json_in("cifar10.json");
  const Labelled read = read_cifar10({file("cifar10.bin")});
  EXPECT_EQ(read.samples.dtype(), DType::kU8);
  EXPECT_EQ(read.samples.shape(), expected["shape"].get<std::vector<std::int64_t>>());
  EXPECT_EQ(numbers_of(read.labels), expected["labels"].get<std::vector<double>>());
  const std::vector<double> pixels = numbers_of(read.samples);
  const auto place = [](std::size_t image, std::size_t colour, std::size_t y, std::size_t x) {
    return ((image * 3 + colour) * 32 + y) * 32 + x;
  };
  for (std::size_t image = 0; image < 2; ++image) {
    for (std::size_t colour = 0; colour < 3; ++colour) {
      const auto begin = pixels.begin() + static_cast<std::ptrdiff_t>(place(image, colour, 0, 0));
      EXPECT_EQ(std::accumulate(begin, begin + 32 * 32, 0.0), expected["sums"][image][colour].get<double>());
    }
  }
  ASSERT_EQ(expected["pixels"].size(), 40U);
  for (const auto& each : expected["pixels"]) {
    EXPECT_EQ(pixels[place(each[0], each[1], each[2], each[3])], each[4].get<double>()) << each;
  }
}

TEST_F(InFolder, CifarsRecordsAreImagesAndLabels) {
  std::string records;
  for (int i = 0; i < 3; ++i) {
    records += static_cast<char>(i + 1);
    for (int j = 0; j < 3072; ++j) records += static_cast<char>((i * 7 + j) % 256);
  }
  const fs::path path = write("batch.bin", records);
  const Labelled one = read_cifar10({path});
  EXPECT_EQ(one.samples.shape(), (std::vector<std::int64_t>{3, 3, 32, 32}));
  EXPECT_EQ(numbers_of(one.labels), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(static_cast<int>(one.samples.row(2)[5]), 19);
  EXPECT_FALSE(one.samples.is_dense());
  EXPECT_SAYS(message_of<InvalidArgument>([&] { one.samples.values<std::uint8_t>(); }), "dense()");
  const Labelled two = read_cifar10({path, path});
  EXPECT_EQ(numbers_of(two.labels), (std::vector<double>{1, 2, 3, 1, 2, 3}));
  EXPECT_EQ(numbers_of(two.samples.part(3, 3)), numbers_of(one.samples));
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_cifar10({write("short.bin", records.substr(1))}); }), "3073");
  records[3073] = 11;
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_cifar10({write("label.bin", records)}); }),
              "record 1 has the label 11");
}

/// A column as Python's library reads it: a name, what it has, its values; null is a number that is missing.
void expect_column(const Table& table, const Json& expected) {
  SCOPED_TRACE(expected[0].get<std::string>());
  const auto& values = table[expected[0].get<std::string>()].values;
  const Json& its = expected[2];
  if (expected[1] == "whole") {
    ASSERT_TRUE(std::holds_alternative<std::vector<std::int64_t>>(values));
    EXPECT_EQ(std::get<std::vector<std::int64_t>>(values), its.get<std::vector<std::int64_t>>());
  } else if (expected[1] == "text") {
    ASSERT_TRUE(std::holds_alternative<std::vector<std::string>>(values));
    EXPECT_EQ(std::get<std::vector<std::string>>(values), its.get<std::vector<std::string>>());
  } else {
    ASSERT_TRUE(std::holds_alternative<std::vector<double>>(values));
    const auto& real = std::get<std::vector<double>>(values);
    ASSERT_EQ(real.size(), its.size());
    for (std::size_t row = 0; row < real.size(); ++row) {
      if (its[row].is_null()) {
        EXPECT_TRUE(std::isnan(real[row])) << row;
      } else {
        EXPECT_EQ(real[row], its[row].get<double>()) << row;
        EXPECT_EQ(std::signbit(real[row]), std::signbit(its[row].get<double>())) << row;
      }
    }
  }
}

TEST(CsvFile, OfEachDialectOfPythonsIsWhatItReads) {
  const Json expected = json_in("csv.json");
  ASSERT_EQ(expected.size(), 4U);
  for (const auto& [name, its] : expected.items()) {
    SCOPED_TRACE(name);
    const Table table = read_csv(file(name), {.separator = its["separator"].get<std::string>()[0]});
    EXPECT_EQ(table.rows(), 10U);
    EXPECT_EQ(table.columns().size(), its["columns"].size());
    for (const Json& each : its["columns"]) expect_column(table, each);
  }
}

TEST(JsonLinesFile, IsWhatPythonReads) {
  const Json expected = json_in("jsonl.json");
  ASSERT_EQ(expected.size(), 2U);
  for (const auto& [name, its] : expected.items()) {
    SCOPED_TRACE(name);
    const Table table = read_json_lines(file(name));
    EXPECT_EQ(table.rows(), 10U);
    EXPECT_EQ(table.columns().size(), its.size());
    for (const Json& each : its) expect_column(table, each);
  }
}

TEST_F(InFolder, CsvHasQuotesLinesInThemAndTypedColumns) {
  const Table table = read_csv(write("t.csv",
                                     "\xef\xbb\xbfid,score,text,empty\r\n"
                                     "1, 2.5,\"a,\"\"b\"\"\nc\",\r\n"
                                     "2,,plain,\r\n"
                                     "\r\n"
                                     "+3,1e3,\"\",\r\n"));
  EXPECT_EQ(table.rows(), 3U);
  EXPECT_EQ(numbers_of(table.integers("id")), (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(table.texts("text"), (std::vector<std::string>{"a,\"b\"\nc", "plain", ""}));
  EXPECT_EQ(table.texts("empty"), (std::vector<std::string>{"", "", ""}));
  const Array numbers = table.numbers({"score", "id"});
  EXPECT_EQ(numbers.shape(), (std::vector<std::int64_t>{3, 2}));
  const auto values = numbers.values<float>();
  EXPECT_EQ(values[0], 2.5F);
  EXPECT_TRUE(std::isnan(values[2]));
  EXPECT_EQ(values[4], 1000.F);
  EXPECT_EQ(values[5], 3.F);
  EXPECT_SAYS(message_of<NotFound>([&] { table.integers("none"); }), "There are: id, score, text, empty.");
  EXPECT_SAYS(message_of<InvalidArgument>([&] { table.numbers({"text"}); }), "texts");
  EXPECT_SAYS(message_of<InvalidArgument>([&] { table.integers("score"); }), "no whole numbers");

  const Table plain = read_csv(write("p.tsv", "1\t2\n3\t4"), {.separator = '\t', .has_names = false});
  EXPECT_EQ(numbers_of(plain.numbers({"0", "1"})), (std::vector<double>{1, 2, 3, 4}));
  // One sign is enough.
  EXPECT_EQ(read_csv(write("s.csv", "a\n+1\n+-3\n")).texts("a"), (std::vector<std::string>{"+1", "+-3"}));
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_csv(write("a.csv", "a,b\n1,2\n1\n")); }),
              "line 3 has 1 fields, and there are 2 columns");
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_csv(write("b.csv", "a,b\n1,\"2\n")); }), "not closed");
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_csv(write("c.csv", "a,b\n1,\"2\"x\n")); }), "follows a closed");
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_csv(write("d.csv", "a,a\n1,2\n")); }), "two columns");
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_csv(write("e.csv", "")); }), "empty");
}

TEST_F(InFolder, JsonLinesAreRowsAndTheirMembersColumns) {
  const Table table = read_json_lines(write("t.jsonl",
                                            "{\"text\": \"caf\\u00e9\", \"label\": 1, \"good\": true}\n"
                                            "\n"
                                            "{\"text\": null, \"label\": 2, \"score\": 0.5, \"good\": false}"));
  EXPECT_EQ(table.rows(), 2U);
  EXPECT_EQ(table.texts("text"), (std::vector<std::string>{"caf\u00e9", ""}));
  EXPECT_EQ(numbers_of(table.integers("label")), (std::vector<double>{1, 2}));
  EXPECT_EQ(numbers_of(table.integers("good")), (std::vector<double>{1, 0}));
  EXPECT_TRUE(std::isnan(table.numbers({"score"}).values<float>()[0]));
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_json_lines(write("a", "{\"a\": 1}\n[1]\n")); }), "line 2");
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_json_lines(write("b", "{\"a\": 1\n")); }), "line 1");
  EXPECT_SAYS(refused(ErrorCode::kUnsupported, [&] { read_json_lines(write("c", "{\"a\": [1]}")); }),
              "line 1 has a list");
}

}  // namespace
}  // namespace pharos::ml

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "data_files.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

/// Compares an array with the values that Python has read.
void expect_same(const Array& array, const Json& expected) {
  std::vector<double> values;
  for (const auto& each : expected["values"]) values.push_back(std::stod(each.get<std::string>()));
  EXPECT_EQ(array.shape(), expected["shape"].get<std::vector<std::int64_t>>());
  EXPECT_EQ(numbers_of(array), values);
}

TEST(Npy, OfEachTypeIsWhatNumpyReads) {
  const std::map<std::string, DType> kTypes{{"bool", DType::kU8},     {"int8", DType::kI8},    {"uint8", DType::kU8},
                                            {"int16", DType::kI32},   {"uint16", DType::kI32}, {"int32", DType::kI32},
                                            {"uint32", DType::kI64},  {"int64", DType::kI64},  {"float16", DType::kF16},
                                            {"float32", DType::kF32}, {"float64", DType::kF64}};
  const Json expected = json_in("npy.json");
  std::set<std::string> seen;
  for (const auto& [name, its] : expected.items()) {
    SCOPED_TRACE(name);
    seen.insert(its["dtype"]);
    for (const Keep keep : {Keep::kMapped, Keep::kInMemory}) {
      const Array array = read_npy(file(name), keep);
      EXPECT_EQ(array.dtype(), kTypes.at(its["dtype"]));
      expect_same(array, its);
    }
  }
  EXPECT_EQ(seen.size(), kTypes.size());
  EXPECT_EQ(read_npy(file("scalar.npy")).shape(), std::vector<std::int64_t>{});
  EXPECT_EQ(read_npy(file("long_head.npy")).shape().size(), 21U);
  EXPECT_EQ(numbers_of(read_npy(file("u2.npy"))).back(), 65535);
  EXPECT_EQ(numbers_of(read_npy(file("u4.npy"))).back(), 4294967295);
}

TEST(SafeTensorsFile, IsWhatItsLibraryHasWritten) {
  const SafeTensors read = SafeTensors::read(file("six.safetensors"));
  EXPECT_EQ(read.tensors().size(), 6U);
  const Json expected = json_in("six.json");
  EXPECT_EQ(expected.size(), 6U);
  for (const auto& [name, its] : expected.items()) {
    SCOPED_TRACE(name);
    expect_same(read[name], its);
  }
  EXPECT_EQ(read["weight"].dtype(), DType::kF32);
  EXPECT_EQ(read["bias"].dtype(), DType::kF16);
  EXPECT_EQ(read["ids"].dtype(), DType::kI32);
  EXPECT_EQ(read["none"].rows(), 0U);
  const std::map<std::string, std::string> metadata{read.metadata().begin(), read.metadata().end()};
  EXPECT_EQ(metadata, (std::map<std::string, std::string>{{"format", "pt"}, {"who", "you"}}));
  EXPECT_EQ(read.find("wait"), nullptr);
  EXPECT_SAYS(message_of<NotFound>([&] { read["wait"]; }), "no tensor \"wait\"");
}

TEST(TokensFile, OfEachWidthAreWhatNumpyReads) {
  const Json expected = json_in("tokens.json");
  EXPECT_EQ(expected.size(), 3U);
  for (const auto& [name, its] : expected.items()) {
    const Tokens tokens = read_tokens(file(name));
    ASSERT_EQ(tokens.size(), 100U) << name;
    std::vector<std::int64_t> all(100);
    tokens.copy(0, all);
    EXPECT_EQ(all, its.get<std::vector<std::int64_t>>()) << name;
    EXPECT_EQ(tokens[99], name == "wide_tokens.bin" ? 4294967295 : 65535);
    EXPECT_SAYS(message_of<InvalidArgument>([&] { tokens.copy(99, std::span{all}.first(2)); }), "there are 100 tokens");
  }
}

TEST(IdxFile, OfEachTypeIsWhatNumpyReads) {
  const std::map<std::string, DType> kTypes{{"uint8", DType::kU8},  {"int8", DType::kI8},     {"int16", DType::kI32},
                                            {"int32", DType::kI32}, {"float32", DType::kF32}, {"float64", DType::kF64}};
  const Json expected = json_in("idx.json");
  ASSERT_EQ(expected.size(), kTypes.size());
  for (const auto& [name, its] : expected.items()) {
    SCOPED_TRACE(name);
    const Array array = read_idx(file(name));
    EXPECT_EQ(array.dtype(), kTypes.at(its["dtype"]));
    expect_same(array, its);
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

/// Compares a column with the one that Python's library reads: its name, its kind and its values. null is a missing
/// number.
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
  // A number may have one sign only.
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
  // The last value of a repeated name counts, as in Python.
  const Table twice = read_json_lines(write("t.jsonl", R"({"b": 1, "a": 2, "b": 3})"));
  EXPECT_EQ(twice.columns()[0].name, "b");
  EXPECT_EQ(numbers_of(twice.integers("b")), std::vector<double>{3});
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_json_lines(write("a", "{\"a\": 1}\n[1]\n")); }), "line 2");
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_json_lines(write("b", "{\"a\": 1\n")); }), "line 1");
  EXPECT_SAYS(refused(ErrorCode::kUnsupported, [&] { read_json_lines(write("c", "{\"a\": [1]}")); }),
              "line 1 has a list");
}

/// An array is refused if the other sizes of its shape are too large, even if one size is 0.
TEST_F(InFolder, ShapesOfNoNumbersThatCannotBeAreCorrupt) {
  using namespace std::string_literals;
  const std::string dictionary = "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4611686018427387904), }";
  const fs::path npy = write("x.npy", "\x93NUMPY\1\0"s + static_cast<char>(dictionary.size()) + '\0' + dictionary);
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_npy(npy); }), "x.npy: there can be no array of f64 (0, 46116");
  const fs::path idx = write("x.idx", "\0\0\x0e\3\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"s);
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { read_idx(idx); }), "x.idx: there can be no array of f64 (0, 42949");
  const std::string head = R"({"a":{"dtype":"F64","shape":[0,4611686018427387904],"data_offsets":[0,0]}})";
  const fs::path tensors = write("x.safetensors", static_cast<char>(head.size()) + "\0\0\0\0\0\0\0"s + head);
  EXPECT_SAYS(refused(ErrorCode::kCorrupt, [&] { SafeTensors::read(tensors); }),
              "x.safetensors: there can be no array");
}

TEST_F(InFolder, CsvHasNumbersOutOfDoublesRangeAsPythonHasThem) {
  const auto numbers = [&](const std::string& content) {
    const Table table = read_csv(write("t.csv", "a\n" + content));
    const auto* const real = std::get_if<std::vector<double>>(&table["a"].values);
    return real == nullptr ? std::vector<double>{} : *real;
  };
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  const auto read = numbers("1e-400\n-1e-400\n1e999\n-1e999\n+1e999\n5e-324\n0.5\n");
  EXPECT_EQ(read, (std::vector<double>{0, 0, kInfinite, -kInfinite, kInfinite, 5e-324, 0.5}));
  EXPECT_TRUE(std::signbit(read.at(1)));
  EXPECT_EQ(numbers(std::string(400, '9') + "\n"), std::vector<double>{kInfinite});
  EXPECT_EQ(read_csv(write("t.csv", "a\n1e999x\n")).texts("a"), std::vector<std::string>{"1e999x"});
}

TEST_F(InFolder, JsonLinesOfOtherNamesEachAreRefusedBeforeTheyFillMemory) {
  const auto lines = [&](int rows) {
    std::string content;
    for (int row = 0; row < rows; ++row) content += "{\"" + std::to_string(row) + "\": 1}\n";
    return write("t.jsonl", content);
  };
  EXPECT_EQ(read_json_lines(lines(1000)).columns()[998].name, "998");
  EXPECT_SAYS(refused(ErrorCode::kUnsupported, [&] { read_json_lines(lines(20'000)); }),
              "t.jsonl: its 20000 rows have 20000 names");
}

/// If each name were compared with all names before it, this would take minutes.
TEST_F(InFolder, JsonLinesMayHaveManyNames) {
  std::string line = "{";
  for (int name = 0; name < 200'000; ++name) line += (name == 0 ? "\"" : ", \"") + std::to_string(name) + "\": 1";
  const Table table = read_json_lines(write("t.jsonl", line + "}\n"));
  EXPECT_EQ(table.columns().size(), 200'000U);
  EXPECT_EQ(table.columns().back().name, "199999");
}

TEST_F(InFolder, JsonLinesSayThatJsonHasNoNaN) {
  const auto refusal = [&](const std::string& content) {
    return refused(ErrorCode::kCorrupt, [&] { read_json_lines(write("t.jsonl", content)); });
  };
  EXPECT_SAYS(refusal("{\"a\": 1}\n{\"a\": NaN}\n"), "t.jsonl: line 2 has NaN, which is not valid JSON; write null");
  EXPECT_SAYS(refusal("{\"a\": -Infinity}\n"), "line 1 has Infinity, which");
  EXPECT_SAYS(refusal(R"({"a": "say \"NaN", "b": Infinity})"), "line 1 has Infinity, which");
  EXPECT_SAYS(refusal("{\"NaN\": \"NaN\", }"), "line 1 is no JSON object");
  EXPECT_EQ(read_json_lines(write("t.jsonl", "{\"NaN\": \"Infinity\"}")).texts("NaN")[0], "Infinity");
}

}  // namespace
}  // namespace pharos::ml

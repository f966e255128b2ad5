// Files of safetensors as they are written, and as other programs read them.

#include <signal.h>
#include <sys/resource.h>

#include <cstring>
#include <map>
#include <thread>

#include <pharos/ml/checkpoints.hpp>

#include "child_program.hpp"
#include "data_files.hpp"
#include "says.hpp"

namespace pharos::ml {
namespace {

template <class T>
NamedArray named(const std::string& name, const std::vector<T>& values, std::vector<std::int64_t> shape) {
  return {name, Array::of(values, std::move(shape))};
}
template <class T>
NamedArray named(const std::string& name, const std::vector<T>& values) {
  return {name, Array::of(values)};
}

/// One array of each type; no array's bytes are a multiple of 8.
std::vector<NamedArray> one_of_each() {
  std::vector<NamedArray> arrays{named<std::uint8_t>("u8", {0, 127, 255}),
                                 named<std::int8_t>("i8", {-128, 0, 127}),
                                 named<std::int32_t>("i32", {INT32_MIN, -1, INT32_MAX}),
                                 named<std::int64_t>("i64", {INT64_MIN, -1, std::int64_t{1} << 53}),
                                 named<Half>("f16", {to_half(0.5F), to_half(-65504), to_half(1)}),
                                 named<BFloat16>("bf16", {to_bfloat16(1e30F), to_bfloat16(-2), to_bfloat16(0)}),
                                 named<float>("f32", {1.0F / 3, -1e-40F, 3e38F}),
                                 named<double>("f64", {1.0 / 3, -5e-324, 1e308})};
  arrays.push_back(named<double>("one", {2.5}, {}));
  arrays.push_back(named<float>("none", {}, {0, 3}));
  arrays.push_back(named<std::uint8_t>("\u00e9 \"x\"", {1, 2, 3, 4, 5, 6}, {3, 2}));
  const Array apart{DType::kI8, {2, 1}, Bytes::copy_of(std::as_bytes(std::span{"\1x\2x"})), 2};
  arrays.push_back({"apart", apart});
  return arrays;
}

template <class T>
void expect_to_lie_well(const Array& array) {
  EXPECT_EQ(array.values<T>().size(), array.elements());
}

TEST_F(InFolder, SafeTensorsOfAllTypesComeBackAsTheyWereAndLieWhereTheirNumbersMay) {
  const fs::path path = folder_.path() / "all.safetensors";
  const std::vector<NamedArray> arrays = one_of_each();
  write_safetensors(path, arrays, {{"a", "b"}, {"", "\u65e5"}});
  const SafeTensors read = SafeTensors::read(path);
  ASSERT_EQ(read.tensors().size(), arrays.size());
  for (const auto& [name, array] : arrays) {
    SCOPED_TRACE(name);
    const Array& own = read[name];
    EXPECT_EQ(own.dtype(), array.dtype());
    EXPECT_EQ(own.shape(), array.shape());
    EXPECT_EQ(numbers_of(own), numbers_of(array));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(own.bytes().data()) % size_of(own.dtype()), 0U);
  }
  expect_to_lie_well<float>(read["f32"]);
  expect_to_lie_well<double>(read["one"]);
  expect_to_lie_well<std::int64_t>(read["i64"]);
  const std::map<std::string, std::string> metadata{read.metadata().begin(), read.metadata().end()};
  EXPECT_EQ(metadata, (std::map<std::string, std::string>{{"a", "b"}, {"", "\u65e5"}}));

  const SafeTensors from = SafeTensors::read(file("six.safetensors"));
  write_safetensors(path, from.tensors());
  const SafeTensors again = SafeTensors::read(path);
  ASSERT_EQ(again.tensors().size(), from.tensors().size());
  for (std::size_t i = 0; i < from.tensors().size(); ++i) {
    EXPECT_EQ(again.tensors()[i].name, from.tensors()[i].name);
    EXPECT_EQ(again.tensors()[i].array.bytes(), from.tensors()[i].array.bytes());
  }
  EXPECT_EQ(files(), 1U);
}

/// Returns the arrays that the format's own library reads from the file.
Json read_by_library(const fs::path& path) {
  cluster::ChildProgram reader{
      "/usr/bin/python3", {ROOT "/tests/data/read_safetensors.py", path}, {{"PYTHONPATH", SAFETENSORS}}};
  const auto end = reader.wait();
  EXPECT_EQ(end.status, 0) << end.error << "\ntools/setup --tests fetches safetensors";
  return Json::parse(end.output, nullptr, false);
}
void expect_same(const Json& tensors, const std::string& name, const std::string& type, const Array& array) {
  SCOPED_TRACE(name);
  ASSERT_TRUE(tensors.contains(name));
  EXPECT_EQ(tensors[name]["dtype"], type);
  EXPECT_EQ(tensors[name]["shape"], array.shape());
  EXPECT_EQ(tensors[name]["numbers"].get<std::vector<double>>(), numbers_of(array));
}

TEST_F(InFolder, SafeTensorsOfAllTypesAreReadByTheFormatsOwnLibrary) {
  const fs::path path = folder_.path() / "all.safetensors";
  const std::vector<NamedArray> arrays = one_of_each();
  write_safetensors(path, arrays, {{"format", "pt"}, {"\u65e5", "\""}});
  const Json read = read_by_library(path);
  EXPECT_EQ(read["metadata"], (Json{{"format", "pt"}, {"\u65e5", "\""}}));
  EXPECT_EQ(read["tensors"].size(), arrays.size());
  constexpr const char* kTypes[] = {"U8", "I8", "I32", "I64", "F16", "BF16", "F32", "F64"};
  for (const auto& [name, array] : arrays) {
    expect_same(read["tensors"], name, kTypes[static_cast<std::size_t>(array.dtype())], array);
  }
}

TEST_F(InFolder, PartsOfACheckpointAreReadByTheFormatsOwnLibrary) {
  std::vector<float> weight{1.5F, -2, 1.0F / 3, 4, 5, 6};
  std::vector<std::uint8_t> narrow{1, 2, 255};
  std::vector<double> wide{1.0 / 3, 1e300};
  std::string note = "at step 7";
  State state;
  state.add(
      {.name = "weight", .dtype = DType::kF32, .shape = {2, 3}, .bytes = std::as_writable_bytes(std::span{weight})});
  state.add({.name = "narrow", .dtype = DType::kU8, .shape = {3}, .bytes = std::as_writable_bytes(std::span{narrow})});
  state.add({.name = "wide", .dtype = DType::kF64, .shape = {2}, .bytes = std::as_writable_bytes(std::span{wide})});
  state.add("note", note);
  Checkpoints checkpoints{Communicator::alone(), {.folder = folder_.path() / "run"}};
  checkpoints.save(state, {.step = 7});
  checkpoints.finish();

  const fs::path part = checkpoints_in(folder_.path() / "run").at(0).path / "rank-00000.safetensors";
  const Json read = read_by_library(part);
  EXPECT_EQ(read["metadata"]["step"], "7");
  expect_same(read["tensors"], "weight", "F32", named("", weight, {2, 3}).array);
  expect_same(read["tensors"], "narrow", "U8", named("", narrow).array);
  expect_same(read["tensors"], "wide", "F64", named("", wide).array);
  EXPECT_EQ(SafeTensors::read(part).tensors().size(), read["tensors"].size());
}

TEST_F(InFolder, SafeTensorsWithNamesThatMakeNoSenseAreNotWritten) {
  const fs::path path = folder_.path() / "x.safetensors";
  const NamedArray one = named<float>("a", {1});
  const auto refusal = [&](const std::vector<NamedArray>& tensors,
                           const std::vector<std::pair<std::string, std::string>>& metadata = {}) {
    return message_of<InvalidArgument>([&] { write_safetensors(path, tensors, metadata); });
  };
  EXPECT_SAYS(refusal({one, one}), "two tensors \"a\"");
  EXPECT_SAYS(refusal({named<float>("caf\xe9", {1})}), "x.safetensors: \"caf\\ufffd\" is no UTF-8");
  EXPECT_SAYS(refusal({one}, {{"\xff", ""}}), "is no UTF-8");
  EXPECT_SAYS(refusal({one}, {{"who", "\xc3"}}), "is no UTF-8");
  EXPECT_SAYS(refusal({one}, {{"who", "you"}, {"who", "me"}}), "two metadata \"who\"");
  EXPECT_SAYS(refusal({named<float>("__metadata__", {1})}), "\"__metadata__\"");
  EXPECT_EQ(files(), 0U);
}

/// While this object exists, files that this process writes are no longer than so many bytes.
class FilesOf {
 public:
  explicit FilesOf(std::uint64_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  FilesOf(FilesOf&&) = delete;
  ~FilesOf() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  const sighandler_t handler_ = ::signal(SIGXFSZ, SIG_IGN);
};

TEST_F(InFolder, SafeTensorsForWhichThereIsNoRoomLeaveWhatWasThereAndNothingElse) {
  const fs::path path = folder_.path() / "x.safetensors";
  write_safetensors(path, {named<float>("a", {1, 2})});
  const std::string before = content_of(path);
  const std::vector<float> many(10'000);
  {
    const FilesOf little{4096};
    const std::string said = message_of<Unavailable>([&] { write_safetensors(path, {named("a", many)}); });
    EXPECT_SAYS(said, path.string());
    EXPECT_SAYS(said, "Make room");
  }
  EXPECT_EQ(content_of(path), before);
  EXPECT_EQ(files(), 1U);
  EXPECT_SAYS(message_of<NotFound>([&] { write_safetensors(folder_.path() / "none" / "x", {}); }), "none/x");
}

TEST_F(InFolder, SafeTensorsThatSeveralWriteAreThoseOfOne) {
  const fs::path path = folder_.path() / "x.safetensors";
  std::vector<std::thread> writers;
  for (std::uint8_t writer = 0; writer < 4; ++writer) {
    writers.emplace_back([&path, writer] {
      const std::vector<std::uint8_t> own(10'000 + writer, writer);
      for (int i = 0; i < 20; ++i) write_safetensors(path, {named("own", own)});
    });
  }
  for (std::thread& each : writers) each.join();
  const Array last = SafeTensors::read(path)["own"];
  const std::uint8_t writer = last.values<std::uint8_t>()[0];
  EXPECT_EQ(last.rows(), 10'000U + writer);
  EXPECT_EQ(std::ranges::count(last.values<std::uint8_t>(), writer), 10'000 + writer);
  EXPECT_EQ(files(), 1U);
}

TEST_F(InFolder, SafeTensorsWhoseHeadOthersReadOtherwiseAreRefused) {
  const auto refusal = [&](const std::string& head, std::size_t bytes) {
    const std::uint64_t length = head.size();
    std::string content(sizeof length, '\0');
    std::memcpy(content.data(), &length, sizeof length);
    const fs::path path = write("x.safetensors", content + head + std::string(bytes, 'x'));
    return refused(ErrorCode::kCorrupt, [&] { SafeTensors::read(path); });
  };
  const auto tensor = [](int begin, int end) {
    return R"({"dtype":"U8","shape":[)" + std::to_string(end - begin) + R"(],"data_offsets":[)" +
           std::to_string(begin) + ',' + std::to_string(end) + "]}";
  };
  EXPECT_SAYS(refusal("{\"a\":" + tensor(0, 2) + ",\"a\":" + tensor(2, 4) + '}', 4), "has \"a\" twice");
  EXPECT_SAYS(refusal(R"({"a":{"dtype":"U8","dtype":"I8","shape":[2],"data_offsets":[0,2]}})", 2), "\"dtype\" twice");
  EXPECT_SAYS(refusal(R"({"__metadata__":{"k":"1","k":"2"}})", 0), "has \"k\" twice");
  EXPECT_SAYS(refusal(R"({"__metadata__":["1"]})", 0), "metadata");
  EXPECT_SAYS(refusal("{\"a\":" + tensor(0, 2) + ",\"b\":" + tensor(3, 4) + '}', 4),
              "no tensor has the 1 bytes from 2");
  EXPECT_SAYS(refusal("{\"a\":" + tensor(1, 2) + '}', 2), "no tensor has the 1 bytes from 0");
  EXPECT_SAYS(refusal("{\"a\":" + tensor(0, 2) + '}', 5), "3 bytes behind its last tensor");
  EXPECT_SAYS(refusal("{}", 1), "1 bytes behind");
  EXPECT_SAYS(refusal("{\"a\":" + tensor(0, 3) + ",\"b\":" + tensor(2, 4) + '}', 4), "two of its tensors overlap");
}

}  // namespace
}  // namespace pharos::ml

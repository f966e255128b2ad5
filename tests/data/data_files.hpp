#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/readers.hpp>

#include "temporary_folder.hpp"

// files/ has files that the formats' own libraries have written; make_files.py made them.

namespace pharos::ml {

namespace fs = std::filesystem;
using Json = nlohmann::json;

inline fs::path file(const std::string& name) {
  return fs::path{PHAROS_DATA_FILES} / name;
}

inline std::vector<double> numbers_of(const Array& array) {
  const Array dense = array.dense();
  std::vector<double> numbers;
  for (std::size_t i = 0; i < dense.elements(); ++i) {
    const std::byte* const at = dense.bytes().data() + i * size_of(dense.dtype());
    const auto read = [&](auto value) {
      std::memcpy(&value, at, sizeof value);
      return value;
    };
    switch (dense.dtype()) {
      case DType::kU8: numbers.push_back(read(std::uint8_t{})); break;
      case DType::kI8: numbers.push_back(read(std::int8_t{})); break;
      case DType::kI32: numbers.push_back(read(std::int32_t{})); break;
      case DType::kI64: numbers.push_back(static_cast<double>(read(std::int64_t{}))); break;
      case DType::kF16: numbers.push_back(to_float(read(Half{}))); break;
      case DType::kBF16: numbers.push_back(to_float(read(BFloat16{}))); break;
      case DType::kF32: numbers.push_back(read(float{})); break;
      case DType::kF64: numbers.push_back(read(double{})); break;
    }
  }
  return numbers;
}

inline Json json_in(const std::string& name) {
  std::ifstream in{file(name)};
  return Json::parse(in);
}

class InFolder : public ::testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& content) const {
    const fs::path path = folder_.path() / name;
    fs::remove(path);  // file systems flush a file that is written again when it is closed
    std::ofstream{path, std::ios::binary} << content;
    return path;
  }
  static std::string content_of(const fs::path& path) {
    std::ifstream in{path, std::ios::binary};
    return {std::istreambuf_iterator<char>{in}, {}};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator{folder_.path()}, fs::directory_iterator{}));
  }
  const TemporaryFolder folder_;
};

/// Expects that `call` throws an Exception of that code, and returns its message.
template <class Call>
std::string refused(ErrorCode code, const Call& call) {
  try {
    call();
  } catch (const Exception& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    return e.what();
  }
  ADD_FAILURE() << "threw nothing";
  return {};
}

}  // namespace pharos::ml

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <pharos/ml/dataset.hpp>

namespace pharos::ml {

/// Memory for the fields of one sample. The thread that reads the sample owns it.
class SampleMemory {
 public:
  SampleMemory(const Dataset& dataset, std::uint64_t sample) {
    std::vector<std::size_t> bytes;
    std::size_t words = 0;
    for (std::size_t i = 0; i < dataset.fields().size(); ++i) {
      const Field& field = dataset.fields()[i];
      bytes.push_back(field.varies() ? field.bytes(dataset.length(sample, i)) : field.bytes());
      words += words_of(bytes.back());
    }
    words_.resize(words);
    std::span<std::byte> rest = std::as_writable_bytes(std::span{words_});
    for (const std::size_t each : bytes) {
      fields_.push_back(rest.first(each));
      rest = rest.subspan(words_of(each) * sizeof(std::uint64_t));
    }
  }

  std::span<const std::span<std::byte>> fields() const { return fields_; }

 private:
  static std::size_t words_of(std::size_t bytes) { return (bytes + 7) / 8; }

  std::vector<std::uint64_t> words_;
  std::vector<std::span<std::byte>> fields_;
};

}  // namespace pharos::ml

#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <pharos/base/export.hpp>
#include <pharos/ml/array.hpp>

/// Files that people have datasets in. What lies in a file as it does in memory is mapped, not read: whole datasets
/// open at once, are shared by all processes of a machine, and take memory where they are used. Files must not change
/// meanwhile. Throws NotFound for a file that is not there, and for one that is not what it should be an Exception of
/// kCorrupt with file, place and reason; nothing is allocated by what a file says of itself before that is checked.
namespace pharos::ml {

enum class Keep : std::uint8_t {
  kMapped,    ///< where that can be
  kInMemory,  ///< read now, and never again
};

/// The whole file, as it lies on disk.
PHAROS_API Bytes map_file(const std::filesystem::path& path);

/// MNIST's format. Numbers of more than a byte are turned around, in memory; int16 becomes i32.
PHAROS_API Array read_idx(const std::filesystem::path& path, Keep keep = Keep::kMapped);

struct Labelled {
  Array samples{};
  Array labels{};
};
/// CIFAR-10's binary version: images of u8 (3, 32, 32), labels of u8. Several files one behind the other, in memory.
PHAROS_API Labelled read_cifar10(const std::vector<std::filesystem::path>& paths, Keep keep = Keep::kMapped);

/// NumPy's. Numbers that lie in Fortran's order, or the other way round, are turned in memory; bool becomes u8, 16 bits
/// without a fraction i32, uint32 i64.
PHAROS_API Array read_npy(const std::filesystem::path& path, Keep keep = Keep::kMapped);

/// Words of a text as numbers: of 16 bits as in nanoGPT's files, or of 16 or 32 with the head that llm.c's have.
class PHAROS_API Tokens {
 public:
  Tokens(Bytes bytes, std::size_t width);

  std::size_t size() const { return bytes_.size() / width_; }
  std::int64_t operator[](std::size_t place) const;
  /// As many as there is room for, from `begin` on.
  void copy(std::size_t begin, std::span<std::int64_t> to) const;

 private:
  Bytes bytes_;
  std::size_t width_;
};
PHAROS_API Tokens read_tokens(const std::filesystem::path& path, Keep keep = Keep::kMapped);

/// A table's column: whole numbers if all are, real ones if all are numbers, else text. What is missing is not a
/// number; in a column of text it is empty.
struct Column {
  std::string name;
  std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>> values{};
};

class PHAROS_API Table {
 public:
  Table(std::vector<Column> columns, std::size_t rows) : columns_{std::move(columns)}, rows_{rows} {}

  std::size_t rows() const { return rows_; }
  const std::vector<Column>& columns() const { return columns_; }
  /// Throws NotFound, with those that there are.
  const Column& operator[](std::string_view name) const;
  /// Of text. Throws InvalidArgument where it is numbers.
  const std::vector<std::string>& texts(std::string_view name) const;
  /// A row of floats for each row, in that order. Throws InvalidArgument for text.
  Array numbers(const std::vector<std::string>& names) const;
  /// i64. Throws InvalidArgument for what is no whole number.
  Array integers(std::string_view name) const;

 private:
  std::vector<Column> columns_;
  std::size_t rows_;
};

struct CsvOptions {
  char separator = ',';
  /// The first line has the columns' names; without, they are "0", "1", ….
  bool has_names = true;
};
/// As RFC 4180 has it: what is in double quotes may hold separators, lines and doubled quotes.
PHAROS_API Table read_csv(const std::filesystem::path& path, const CsvOptions& options = {});
/// A JSON object a line; its members are columns, numbers, texts, true and false (1 and 0) or null.
PHAROS_API Table read_json_lines(const std::filesystem::path& path);

/// A file of named tensors, mapped.
class PHAROS_API SafeTensors {
 public:
  static SafeTensors read(const std::filesystem::path& path, Keep keep = Keep::kMapped);

  /// In the order of their names.
  const std::vector<NamedArray>& tensors() const { return tensors_; }
  /// Null: there is none.
  const Array* find(std::string_view name) const;
  /// Throws NotFound.
  const Array& operator[](std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& metadata() const { return metadata_; }

 private:
  std::vector<NamedArray> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};
/// Whole, or not at all: what was there before stays until then, also when others write it meanwhile. Throws
/// InvalidArgument for a name that is there twice or is no UTF-8, and what the disk says.
PHAROS_API void write_safetensors(const std::filesystem::path& path, const std::vector<NamedArray>& tensors,
                                  const std::vector<std::pair<std::string, std::string>>& metadata = {});

/// What torch.save() has made of a state dict, or of dictionaries, lists and numbers with tensors in them: their names
/// are the keys on the way to them, with points between. Nothing of the file is run: of Python's pickle it knows what
/// tensors need, and refuses the rest by name. bool becomes u8. Each tensor's bytes are read once, for their checksums.
PHAROS_API std::vector<NamedArray> read_torch(const std::filesystem::path& path, Keep keep = Keep::kMapped);

}  // namespace pharos::ml

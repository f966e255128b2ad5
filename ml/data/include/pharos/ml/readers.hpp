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

/// Readers for common file formats of datasets. Where the format matches the representation in memory, the file is
/// mapped and not read: large datasets open at once, are shared by all processes of a machine, and take memory only
/// where they are used. Files must not change while they are in use: a mapped file that becomes shorter kills the
/// processes that read it. A mapping lasts as long as an array of it; the file may be deleted meanwhile.
/// All readers throw NotFound if the file does not exist, InvalidArgument if the path names no regular file, and else
/// the error of the system; an Exception with kCorrupt, which names the file, the place and the reason, if the contents
/// are wrong; and one with kUnsupported for contents that the format allows and the reader does not know. Sizes that a
/// file claims are checked before memory is allocated for them. Any thread may call.
namespace pharos::ml {

enum class Keep : std::uint8_t {
  kMapped,    ///< mapped if the format allows it
  kInMemory,  ///< read now, so the file may change later
};

/// Maps the whole file. An empty file gives no bytes.
PHAROS_API Bytes map_file(const std::filesystem::path& path);

/// Reads an IDX file, the format of MNIST. Numbers of more than one byte are converted from big-endian in memory; int16
/// becomes i32.
PHAROS_API Array read_idx(const std::filesystem::path& path, Keep keep = Keep::kMapped);

struct Labelled {
  Array samples{};
  Array labels{};
};
/// Reads the binary version of CIFAR-10: images of u8 (3, 32, 32) and labels of u8. Several files are joined in memory.
/// The arrays are not dense. Throws InvalidArgument if no file is named.
PHAROS_API Labelled read_cifar10(const std::vector<std::filesystem::path>& paths, Keep keep = Keep::kMapped);

/// Reads a NumPy file. Numbers in Fortran order or in big-endian order are converted in memory. bool becomes u8, int16
/// and uint16 become i32, and uint32 becomes i64.
PHAROS_API Array read_npy(const std::filesystem::path& path, Keep keep = Keep::kMapped);

/// A text as a sequence of numbered tokens: numbers of 16 bits without a head as in nanoGPT's files, or of 16 or 32
/// bits with the head of llm.c's files.
class PHAROS_API Tokens {
 public:
  /// Tokens have `width` bytes, which must be 2 or 4; throws InvalidArgument otherwise.
  Tokens(Bytes bytes, std::size_t width);

  std::size_t size() const { return bytes_.size() / width_; }
  /// Throws InvalidArgument if there is no such place.
  std::int64_t operator[](std::size_t place) const;
  /// Copies the tokens from `begin` on until `to` is full. Throws InvalidArgument if there are too few.
  void copy(std::size_t begin, std::span<std::int64_t> to) const;

 private:
  Bytes bytes_;
  std::size_t width_;
};
/// Reads a file of tokens in one of the two formats.
PHAROS_API Tokens read_tokens(const std::filesystem::path& path, Keep keep = Keep::kMapped);

/// A column of a table. It has whole numbers if all values are whole numbers, real numbers if all are numbers, and text
/// otherwise. A missing value is NaN, or the empty text in a column of text.
struct Column {
  std::string name;
  std::variant<std::vector<std::int64_t>, std::vector<double>, std::vector<std::string>> values{};
};

/// Columns of equal length, read from a file. A value; any thread may read it. References to columns are valid as long
/// as the Table.
class PHAROS_API Table {
 public:
  /// Each column must have `rows` values; this is not checked.
  Table(std::vector<Column> columns, std::size_t rows) : columns_{std::move(columns)}, rows_{rows} {}

  std::size_t rows() const { return rows_; }
  const std::vector<Column>& columns() const { return columns_; }
  /// Throws NotFound, which names the columns that exist.
  const Column& operator[](std::string_view name) const;
  /// The values of a column of text. Throws InvalidArgument if the column has numbers.
  const std::vector<std::string>& texts(std::string_view name) const;
  /// Returns these columns as floats: a row of the array for each row of the table. Throws InvalidArgument if a column
  /// has text, and NotFound if there is no such column.
  Array numbers(const std::vector<std::string>& names) const;
  /// Returns the column as i64. Throws InvalidArgument if some value is not a whole number, and NotFound if there is no
  /// such column.
  Array integers(std::string_view name) const;

 private:
  std::vector<Column> columns_;
  std::size_t rows_;
};

struct CsvOptions {
  char separator = ',';
  /// The first line has the names of the columns. If false, the names are "0", "1", ….
  bool has_names = true;
};
/// Reads a CSV file as in RFC 4180: fields in double quotes may contain separators, line ends and doubled quotes.
PHAROS_API Table read_csv(const std::filesystem::path& path, const CsvOptions& options = {});
/// Reads a file with one JSON object on each line. The members are columns; values may be numbers, texts, true and
/// false (1 and 0) or null.
PHAROS_API Table read_json_lines(const std::filesystem::path& path);

/// A safetensors file: named tensors, which are mapped. A value; copies of its arrays may outlive it. Any thread may
/// read it.
class PHAROS_API SafeTensors {
 public:
  static SafeTensors read(const std::filesystem::path& path, Keep keep = Keep::kMapped);

  /// Sorted by name.
  const std::vector<NamedArray>& tensors() const { return tensors_; }
  /// Returns null if there is no tensor of that name.
  const Array* find(std::string_view name) const;
  /// Throws NotFound if there is no tensor of that name.
  const Array& operator[](std::string_view name) const;
  const std::vector<std::pair<std::string, std::string>>& metadata() const { return metadata_; }

 private:
  std::vector<NamedArray> tensors_;
  std::vector<std::pair<std::string, std::string>> metadata_;
};
/// Writes the file entirely or not at all: an existing file stays until the new one is complete, even if several
/// processes write it at the same time. Returns when the file is on disk. Throws InvalidArgument for a name that occurs
/// twice, is "__metadata__" or is not UTF-8, and the error of the disk. If only the folder could not be synced, that
/// error comes although the new file is there.
PHAROS_API void write_safetensors(const std::filesystem::path& path, const std::vector<NamedArray>& tensors,
                                  const std::vector<std::pair<std::string, std::string>>& metadata = {});

/// Reads a file of torch.save() that contains a state dict, or dictionaries, lists and numbers with tensors in them.
/// The name of a tensor is the keys on the way to it, joined by points. No code of the file is run: the reader
/// implements the part of Python's pickle that tensors need, and refuses the rest by name. bool becomes u8. All bytes
/// of a tensor are read once, to check their checksum.
PHAROS_API std::vector<NamedArray> read_torch(const std::filesystem::path& path, Keep keep = Keep::kMapped);

}  // namespace pharos::ml

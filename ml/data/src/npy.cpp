#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include <pharos/ml/readers.hpp>

#include "file_bytes.hpp"
#include "shapes.hpp"

// The format: "\x93NUMPY", the version in two bytes, the length of the head (2 bytes, or 4 from version 2 on), the head
// as a Python dictionary, the numbers.

namespace pharos::ml {
namespace {

struct Head {
  FileNumbers numbers{};
  bool by_columns = false;
  std::vector<std::int64_t> shape{};
};

/// Parses a head such as "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }".
class HeadReader {
 public:
  HeadReader(const std::filesystem::path& path, std::string_view text) : path_{path}, text_{text} {}

  Head read() {
    Head head;
    bool has_type = false;
    bool has_order = false;
    bool has_shape = false;
    take('{');
    while (!comes('}')) {
      const std::string_view key = quoted();
      take(':');
      if (key == "descr") {
        if (comes('[')) throw_unsupported(path_, "its rows are records of several types; write an array for each");
        head.numbers = numbers(quoted());
        has_type = true;
      } else if (key == "fortran_order") {
        head.by_columns = truth();
        has_order = true;
      } else if (key == "shape") {
        head.shape = shape();
        has_shape = true;
      } else {
        fail();
      }
      if (!comes('}')) take(',');
    }
    if (!has_type || !has_order || !has_shape) fail();
    return head;
  }

 private:
  [[noreturn]] void fail() const {
    throw_corrupt(path_, "its head makes no sense: " + std::string{text_.substr(0, 120)});
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool comes(char what) {
    skip();
    return at_ < text_.size() && text_[at_] == what;
  }
  void take(char what) {
    if (!comes(what)) fail();
    ++at_;
  }
  std::string_view quoted() {
    take('\'');
    const std::size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) fail();
    const std::string_view found = text_.substr(at_, end - at_);
    at_ = end + 1;
    return found;
  }
  bool truth() {
    skip();
    for (const std::string_view word : {"True", "False"}) {
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    }
    fail();
  }
  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> lengths;
    take('(');
    while (!comes(')')) {
      std::int64_t length = 0;
      const char* const begin = text_.data() + at_;
      const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), length);
      if (error != std::errc{} || length < 0) fail();
      at_ += static_cast<std::size_t>(end - begin);
      lengths.push_back(length);
      if (!comes(')')) take(',');
    }
    take(')');
    return lengths;
  }
  FileNumbers numbers(std::string_view text) const {
    using Kind = FileNumbers::Kind;
    FileNumbers numbers;
    if (text.size() < 3) fail();
    if (text[0] != '<' && text[0] != '>' && text[0] != '|') fail();
    numbers.big_endian = text[0] == '>';
    switch (text[1]) {
      case 'f': numbers.kind = Kind::kReal; break;
      case 'i': numbers.kind = Kind::kSigned; break;
      case 'u': numbers.kind = Kind::kUnsigned; break;
      case 'b': numbers.kind = Kind::kBool; break;
      default: throw_unsupported(path_, "there is no type for its elements \"" + std::string{text} + "\"");
    }
    const char* const end = text.data() + text.size();
    if (std::from_chars(text.data() + 2, end, numbers.bytes).ptr != end || numbers.bytes > 16) fail();
    return numbers;
  }

  const std::filesystem::path& path_;
  const std::string_view text_;
  std::size_t at_ = 0;
};

/// Converts from Fortran order, in which the first index changes fastest, to C order, in which the last one does.
Array turned(const Array& file, std::vector<std::int64_t> shape) {
  const std::size_t bytes = size_of(file.dtype());
  std::vector<std::byte> to(file.bytes().size());
  std::vector<std::size_t> index(shape.size());
  for (std::size_t place = 0; place < to.size(); place += bytes) {
    std::size_t from = 0;
    for (std::size_t d = shape.size(); d-- > 0;) from = from * static_cast<std::size_t>(shape[d]) + index[d];
    std::memcpy(to.data() + place, file.bytes().data() + from * bytes, bytes);
    for (std::size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < static_cast<std::size_t>(shape[d])) break;
      index[d] = 0;
    }
  }
  return {file.dtype(), std::move(shape), Bytes{std::move(to)}};
}

}  // namespace

Array read_npy(const std::filesystem::path& path, Keep keep) {
  const Bytes file = bytes_of_file(path, keep);
  const char* const text = reinterpret_cast<const char*>(file.data());
  if (file.size() < 10 || std::memcmp(text, "\x93NUMPY", 6) != 0) {
    throw_corrupt(path, "this is not an npy file: it begins with other bytes");
  }
  const std::size_t width = text[6] == 1 ? 2 : 4;
  std::uint32_t length = 0;
  std::memcpy(&length, text + 8, std::min(width, file.size() - 8));
  const std::size_t begin = 8 + width;
  if (file.size() < begin || length > file.size() - begin) throw_corrupt(path, "it ends within its head");
  const Head head = HeadReader{path, {text + begin, length}}.read();
  const Bytes numbers{file.owner(), file.span().subspan(begin + length)};
  if (head.by_columns && head.shape.size() > 1) {
    return turned(array_of(path, head.numbers, head.shape, numbers), head.shape);
  }
  return array_of(path, head.numbers, head.shape, numbers);
}

}  // namespace pharos::ml

#include <algorithm>
#include <cstring>

#include <pharos/actors/exceptions.hpp>
#include <pharos/ml/readers.hpp>

#include "file_bytes.hpp"

// The head of llm.c's files has 256 numbers of 4 bytes: kMagic, the version, the number of tokens, and zeros. Version 1
// has tokens of 16 bits. Version 7 has tokens of 32 bits and the other magic number.

namespace pharos::ml {
namespace {

constexpr std::size_t kHeadBytes = 1024;
constexpr std::uint32_t kMagic = 20240520;
constexpr std::uint32_t kMagicWide = 20240801;

template <class Token>
void copy_as(const Bytes& from, std::size_t begin, std::span<std::int64_t> to) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    Token token{};
    std::memcpy(&token, from.data() + (begin + i) * sizeof token, sizeof token);
    to[i] = token;
  }
}

}  // namespace

Tokens::Tokens(Bytes bytes, std::size_t width) : bytes_{std::move(bytes)}, width_{width} {
  if (width_ != 2 && width_ != 4) {
    throw_error(Error{ErrorCode::kInvalidArgument, "a token has 2 or 4 bytes, and not " + std::to_string(width_)});
  }
}

std::int64_t Tokens::operator[](std::size_t place) const {
  std::int64_t token = 0;
  copy(place, {&token, 1});
  return token;
}

void Tokens::copy(std::size_t begin, std::span<std::int64_t> to) const {
  if (begin > size() || to.size() > size() - begin) {
    throw_error(Error{ErrorCode::kInvalidArgument, std::to_string(to.size()) + " tokens from " + std::to_string(begin) +
                                                       " on were asked for; there are " + std::to_string(size()) +
                                                       " tokens"});
  }
  width_ == 2 ? copy_as<std::uint16_t>(bytes_, begin, to) : copy_as<std::uint32_t>(bytes_, begin, to);
}

Tokens read_tokens(const std::filesystem::path& path, Keep keep) {
  const Bytes file = bytes_of_file(path, keep);
  std::uint32_t head[3]{};
  if (file.size() >= kHeadBytes) std::memcpy(head, file.data(), sizeof head);
  if (head[0] != kMagic && head[0] != kMagicWide) {
    if (file.size() % 2 != 0) throw_corrupt(path, "its " + std::to_string(file.size()) + " bytes are no whole tokens");
    return {file, 2};
  }
  const std::size_t width = head[0] == kMagic ? 2 : 4;
  if (head[1] != (width == 2 ? 1 : 7)) {
    throw_unsupported(path, "its head is of version " + std::to_string(head[1]));
  }
  const std::size_t bytes = file.size() - kHeadBytes;
  if (bytes != std::size_t{head[2]} * width) {
    throw_corrupt(path, "its head says " + std::to_string(head[2]) + " tokens, and " + std::to_string(bytes) +
                            " bytes follow it");
  }
  return {Bytes{file.owner(), file.span().subspan(kHeadBytes)}, width};
}

}  // namespace pharos::ml

#include <cstring>

#include <pharos/net/link.hpp>

namespace pharos::net {
namespace {

std::uint32_t payload_bytes_at(const std::byte* frame) {
  std::uint32_t bytes = 0;
  static_assert(offsetof(wire::FrameHeader, payload_bytes) == 0);
  std::memcpy(&bytes, frame, sizeof bytes);
  return bytes;
}

}  // namespace

bool FrameBatch::one_left() const {
  return !empty() && at_ + sizeof(wire::FrameHeader) + payload_bytes_at(buffer_.bytes() + at_) == end_;
}

wire::FrameView FrameBatch::next() {
  PHAROS_CHECK(!empty());
  wire::FrameView frame;
  const std::byte* const start = buffer_.bytes() + at_;
  std::memcpy(&frame.header, start, sizeof frame.header);
  frame.payload = {start + sizeof frame.header, frame.header.payload_bytes};
  at_ += sizeof frame.header + frame.payload.size();
  return frame;
}

}  // namespace pharos::net

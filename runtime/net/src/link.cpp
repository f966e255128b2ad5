#include <cstring>

#include <pharos/net/link.hpp>

namespace pharos::net {
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

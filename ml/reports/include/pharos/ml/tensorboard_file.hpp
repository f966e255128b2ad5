#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include <pharos/base/export.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/metrics.hpp>

// Files of events: each a record of its length and the length's checksum, an Event as protobuf has it, and its
// checksum. The numbers of fields are those of TensorBoard's event.proto and summary.proto.

namespace pharos::ml {

/// A message of protobuf, field by field.
class ProtoMessage {
 public:
  ProtoMessage& number(std::uint32_t field, std::uint64_t value) {
    key(field, 0);
    varint(value);
    return *this;
  }
  ProtoMessage& real(std::uint32_t field, double value) { return fixed(field, 1, value); }
  ProtoMessage& real(std::uint32_t field, float value) { return fixed(field, 5, value); }
  ProtoMessage& text(std::uint32_t field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  ProtoMessage& message(std::uint32_t field, const ProtoMessage& value) { return text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(std::uint32_t field, std::uint32_t kind) { varint(field << 3 | kind); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  template <class T>
  ProtoMessage& fixed(std::uint32_t field, std::uint32_t kind, T value) {
    key(field, kind);
    append(value);
    return *this;
  }
  template <class T>
  void append(T value) {
    char raw[sizeof value];
    std::memcpy(raw, &value, sizeof value);
    bytes_.append(raw, sizeof value);
  }

  std::string bytes_;
};

/// A file of events, as TensorBoard reads it, behind those that are there. One thread.
class PHAROS_API TensorBoardFile {
 public:
  /// In that folder; what it has is there when write() has been called. A last record that has no end goes then:
  /// nothing behind it would be read. `began`: seconds since 1970.
  TensorBoardFile(const std::filesystem::path& folder, double began);

  /// One curve for each metric; `unnamed` is what one without a name is called.
  void add(double time, std::uint64_t step, const Metrics& metrics, std::string_view unnamed = "value");
  void add(double time, std::uint64_t step, const ProtoMessage& summary);
  /// Steps come again, from that one on: those that were added before do not count any more.
  void go_back(double time, std::uint64_t step);
  /// What has come since is in the file; what it has been made anew for is gone. After an error the file has whole
  /// records, and the next call tries again; where nothing can be written for long, some are left out.
  Result<void> write();

 private:
  void append(const ProtoMessage& event);

  std::filesystem::path path_;
  std::string to_write_;
  bool is_whole_ = false;  ///< what was there
};

}  // namespace pharos::ml

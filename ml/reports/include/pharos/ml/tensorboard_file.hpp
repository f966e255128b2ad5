#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>

#include <pharos/base/export.hpp>
#include <pharos/base/result.hpp>
#include <pharos/ml/metrics.hpp>

// A file of events has a record for each event: its length, the checksum of the length, the event as a protobuf message
// (Event), and the checksum of that. The numbers of fields are those of TensorBoard's event.proto and summary.proto.

namespace pharos::ml {

/// Encodes a protobuf message, field by field. A value; nothing is checked.
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

/// Writes a file of events for TensorBoard. Events are added behind those that the file has. Owned by TrainLog, and by
/// the TensorBoard of a sweep; one thread, and one object for a file. At most about 64 MiB of records wait to be
/// written; while that many wait, new events are left out. The destructor drops the records that wait. The file is open
/// only during write().
class PHAROS_API TensorBoardFile {
 public:
  /// The file is in `folder`, and write() makes it. If an existing file ends with an incomplete record, write() removes
  /// the record, because TensorBoard reads nothing behind it. `began` is in seconds since 1970, as is `time` below.
  TensorBoardFile(const std::filesystem::path& folder, double began);

  /// Adds a value to the curve of each metric. `unnamed` is the name for the metric without a name.
  void add(double time, std::uint64_t step, const Metrics& metrics, std::string_view unnamed = "value");
  void add(double time, std::uint64_t step, const ProtoMessage& summary);
  /// Says that the steps from `step` on come again: TensorBoard drops what was added for them before.
  void go_back(double time, std::uint64_t step);
  /// Writes the events that have been added. After an error the file has whole records only, and the next call tries
  /// again.
  Result<void> write();

 private:
  void append(const ProtoMessage& event);

  std::filesystem::path path_;
  std::string to_write_;
  bool is_whole_ = false;  ///< The file is known to end with a whole record.
};

}  // namespace pharos::ml

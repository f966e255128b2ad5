#include "tensorboard.hpp"

#include <fcntl.h>

#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>

#include <pharos/base/fd.hpp>
#include <pharos/base/whole_files.hpp>

#include "crc32c.hpp"

// Files of events: each a record of its length and the length's checksum, an Event as protobuf has it, and its
// checksum. The numbers of fields are those of TensorBoard's event.proto, summary.proto, and its hparams plugin's
// api.proto.

namespace pharos::ml {
namespace {

namespace fs = std::filesystem;

/// A message of protobuf, field by field.
class Message {
 public:
  Message& number(std::uint32_t field, std::uint64_t value) {
    key(field, 0);
    varint(value);
    return *this;
  }
  Message& real(std::uint32_t field, double value) { return fixed(field, 1, value); }
  Message& real(std::uint32_t field, float value) { return fixed(field, 5, value); }
  Message& text(std::uint32_t field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(std::uint32_t field, const Message& value) { return text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(std::uint32_t field, std::uint32_t kind) { varint(field << 3 | kind); }
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  template <class T>
  Message& fixed(std::uint32_t field, std::uint32_t kind, T value) {
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

std::uint32_t masked_checksum(std::string_view bytes) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span{bytes}));
  return std::rotr(crc, 15) + 0xa282ead8;
}

void append_record(std::string& to, const Message& event) {
  const std::uint64_t size = event.bytes().size();
  char length[sizeof size];
  std::memcpy(length, &size, sizeof size);
  const auto append_checksum = [&](std::string_view of) {
    const std::uint32_t checksum = masked_checksum(of);
    char raw[sizeof checksum];
    std::memcpy(raw, &checksum, sizeof checksum);
    to.append(raw, sizeof raw);
  };
  to.append(length, sizeof length);
  append_checksum({length, sizeof length});
  to += event.bytes();
  append_checksum(event.bytes());
}

Message event_of(double time, std::uint64_t step, const Message& summary) {
  return Message{}.real(1, time).number(2, step).message(5, summary);
}

/// What the HParams page reads.
Message hparams_summary(std::string_view tag, const Message& plugin_data) {
  const Message plugin = Message{}.text(1, "hparams").text(2, plugin_data.bytes());
  const Message shape = Message{}.message(2, Message{}.number(1, 1));
  const Message nothing = Message{}.number(1, 1).message(2, shape).real(5, 0.0F);  // a tensor has to be there
  const Message value = Message{}.text(1, tag).message(8, nothing).message(9, Message{}.message(1, plugin));
  return Message{}.message(1, value);
}

Message value_of(const Value& value) {
  Message message;
  if (const auto* const truth = std::get_if<bool>(&value)) {
    message.number(4, *truth ? 1 : 0);
  } else if (const auto* const whole = std::get_if<std::int64_t>(&value)) {
    message.real(2, static_cast<double>(*whole));
  } else if (const auto* const real = std::get_if<double>(&value)) {
    message.real(2, *real);
  } else {
    message.text(3, std::get<std::string>(value));
  }
  return message;
}

/// Text, truth or number, as the page calls them.
std::uint64_t kind_of(const Domain& domain) {
  if (domain.kind != Domain::Kind::kChoice) return 3;
  if (std::holds_alternative<std::string>(domain.choices.front())) return 1;
  return std::holds_alternative<bool>(domain.choices.front()) ? 2 : 3;
}

Message experiment_of(const Space& space, const std::string& metric, double began) {
  Message experiment;
  experiment.real(3, began);
  for (const Space::Parameter& parameter : space.parameters()) {
    experiment.message(4, Message{}.text(1, parameter.name).number(4, kind_of(parameter.domain)));
  }
  experiment.message(5, Message{}.message(1, Message{}.text(2, metric)));
  return Message{}.number(1, 0).message(2, experiment);
}

Message start_of(const TrialResult& trial, double time) {
  Message start;
  for (const auto& [name, value] : trial.params.entries()) {
    start.message(1, Message{}.text(1, name).message(2, value_of(value)));
  }
  start.text(4, "trial " + std::to_string(trial.number)).real(5, time);
  return Message{}.number(1, 0).message(3, start);
}

Message end_of(const TrialResult& trial, double time) {
  const bool failed = trial.state == TrialResult::State::kFailed;
  return Message{}.number(1, 0).message(4, Message{}.number(1, failed ? 2 : 1).real(2, time));
}

std::string begun_file(double time) {
  std::string records;
  append_record(records, Message{}.real(1, time).text(3, "brain.Event:2"));
  return records;
}

}  // namespace

Result<TensorBoard> TensorBoard::make(const fs::path& folder, const Space& space, const std::string& metric) {
  std::error_code error;
  fs::remove_all(folder, error);
  fs::create_directories(folder, error);
  if (error)
    return Error::from_errno("making " + folder.string(), error.value(), "Give a folder that can be written to.");
  const double began = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  TensorBoard board{folder, metric, began};
  std::string& records = board.to_write_[folder / "events.out.tfevents.pharos"];
  records = begun_file(began);
  append_record(records,
                event_of(began, 0, hparams_summary("_hparams_/experiment", experiment_of(space, metric, began))));
  return board;
}

std::string& TensorBoard::file_of(std::uint64_t trial) {
  std::string number = std::to_string(trial);
  number.insert(0, 6 - std::min<std::size_t>(number.size(), 6), '0');
  return to_write_[folder_ / ("trial-" + number) / "events.out.tfevents.pharos"];
}

void TensorBoard::add(const SweepEvent& event, const TrialResult& trial) {
  if (const auto* const reported = std::get_if<TrialReported>(&event)) {
    add_metrics(trial, reported->step, reported->seconds, reported->metrics);
  } else if (const auto* const returned = std::get_if<TrialReturned>(&event)) {
    add_metrics(trial, trial.step, returned->seconds, returned->metrics);
  }
  using State = TrialResult::State;
  const bool is_over =
      trial.state == State::kComplete || trial.state == State::kStopped || trial.state == State::kFailed;
  if (!is_over || std::holds_alternative<TrialSaved>(event)) return;
  // What it asked for as it ran is known now, too.
  std::string& records = file_of(trial.number);
  if (records.empty() && (trial.number >= begun_.size() || !begun_[trial.number])) records = begun_file(began_);
  append_record(records,
                event_of(began_ + trial.began_s, 0,
                         hparams_summary("_hparams_/session_start_info", start_of(trial, began_ + trial.began_s))));
  append_record(records,
                event_of(began_ + trial.ended_s, 0,
                         hparams_summary("_hparams_/session_end_info", end_of(trial, began_ + trial.ended_s))));
}

void TensorBoard::add_metrics(const TrialResult& trial, std::uint64_t step, double seconds, const Metrics& metrics) {
  if (metrics.empty()) return;
  std::string& records = file_of(trial.number);
  if (trial.number >= begun_.size()) begun_.resize(trial.number + 1);
  if (!begun_[trial.number]) {
    begun_[trial.number] = true;
    records = begun_file(began_ + trial.began_s);
  }
  Message summary;
  for (const auto& [name, value] : metrics.entries()) {
    summary.message(1, Message{}.text(1, name.empty() ? metric_ : name).real(2, static_cast<float>(value)));
  }
  append_record(records, event_of(began_ + seconds, step, summary));
}

Result<void> TensorBoard::write() {
  for (auto& [path, records] : to_write_) {
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    const Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644)};
    if (!file) return Error::from_errno("making " + path.string(), errno);
    PHAROS_TRY_VOID(write_whole(file, std::as_bytes(std::span{records}), "writing " + path.string(),
                                "Make room in the sweep's folder."));
  }
  to_write_.clear();
  return {};
}

}  // namespace pharos::ml

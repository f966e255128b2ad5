#include "run/journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <pharos/base/whole_files.hpp>
#include <pharos/ml/crc32c.hpp>
#include <pharos/wire/stored_codec.hpp>

// The file has kJournalMagic, kVersion, and frames. A frame has the length of its payload, the checksum of the payload,
// the checksum of these two numbers (each has 4 bytes, lowest first), and the payload. The first payload is a
// JournalHead, and the others are events. A frame that ends behind the end of the file, or a wrong frame with nothing
// but zeros behind it, was being written when the tuner or the machine died. Any other wrong frame was damaged later.

namespace pharos::ml {
namespace {

constexpr char kJournalMagic[8] = {'P', 'H', 'A', 'R', 'O', 'S', 'T', 'J'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kStartBytes = sizeof kJournalMagic + sizeof kVersion;
constexpr std::size_t kFrameBytes = 12;

Error with_path(Error error, const std::filesystem::path& file) {
  return std::move(error).with("journal " + file.string());
}

Result<std::vector<std::byte>> bytes_of(const std::filesystem::path& file) {
  const Fd from{::open(file.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!from) return Error::from_errno("opening it", errno, "Is the folder that of a sweep?");
  return read_whole(from, "reading it");
}

std::uint32_t number_at(std::span<const std::byte> bytes, std::size_t place) {
  std::uint32_t number = 0;
  std::memcpy(&number, bytes.data() + place, sizeof number);
  return number;
}

struct Frame {
  enum class Kind : std::uint8_t { kWhole, kCut, kWrong };
  Kind kind;
  std::span<const std::byte> payload{};
};

/// Returns the frame at the beginning of `bytes`, which are not empty.
Frame frame_at(std::span<const std::byte> bytes) {
  const auto wrong_unless_zeros = [](std::span<const std::byte> behind) {
    const bool zeros = std::all_of(behind.begin(), behind.end(), [](std::byte byte) { return byte == std::byte{}; });
    return Frame{zeros ? Frame::Kind::kCut : Frame::Kind::kWrong};
  };
  if (bytes.size() < kFrameBytes) return {Frame::Kind::kCut};
  const std::uint32_t length = number_at(bytes, 0);
  if (crc32c(bytes.first(8)) != number_at(bytes, 8) || length == 0) return wrong_unless_zeros(bytes);
  if (length > bytes.size() - kFrameBytes) return {Frame::Kind::kCut};
  const auto payload = bytes.subspan(kFrameBytes, length);
  if (crc32c(payload) != number_at(bytes, 4)) return wrong_unless_zeros(bytes.subspan(kFrameBytes + length));
  return {Frame::Kind::kWhole, payload};
}

}  // namespace

// ---- Reading

Result<Journal::Contents> Journal::read(const std::filesystem::path& file,
                                        const std::function<Result<void>(const SweepEvent& event)>& take) {
  auto read = bytes_of(file);
  if (!read) return with_path(std::move(read).error(), file);
  const std::span<const std::byte> bytes{*read};
  if (bytes.size() < kStartBytes || std::memcmp(bytes.data(), kJournalMagic, sizeof kJournalMagic) != 0) {
    return with_path({ErrorCode::kCorrupt, "this file is not the journal of a sweep", "Give the folder of a sweep."},
                     file);
  }
  if (const std::uint32_t version = number_at(bytes, sizeof kJournalMagic); version != kVersion) {
    return with_path(
        {ErrorCode::kUnsupported,
         "it is of version " + std::to_string(version) + ", and this is version " + std::to_string(kVersion),
         "Read it with the Pharos that wrote it."},
        file);
  }
  Contents contents;
  bool has_head = false;
  std::size_t place = kStartBytes;
  while (place < bytes.size()) {
    const Frame frame = frame_at(bytes.subspan(place));
    if (frame.kind == Frame::Kind::kWrong) {
      return with_path({ErrorCode::kCorrupt, "the file is damaged from byte " + std::to_string(place) + " on",
                        "Restore the file from a copy. If the file is cut off at that byte, the sweep continues from "
                        "an earlier state."},
                       file);
    }
    if (frame.kind == Frame::Kind::kCut) {
      contents.was_cut = true;
      break;
    }
    const auto payload = frame.payload;
    if (!has_head) {
      auto head = from_bytes<JournalHead>(payload);
      if (!head) return with_path(std::move(head).error(), file);
      contents.head = *std::move(head);
      has_head = true;
    } else {
      auto event = from_bytes<SweepEvent>(payload);
      if (!event) return with_path(std::move(event).error().with("at byte " + std::to_string(place)), file);
      if (auto taken = take(*event); !taken) return with_path(std::move(taken).error(), file);
    }
    place += kFrameBytes + payload.size();
  }
  if (!has_head) {
    return with_path({ErrorCode::kCorrupt, "the file ends before the description of its sweep",
                      "Begin the sweep again in another folder."},
                     file);
  }
  contents.bytes = place;
  return contents;
}

// ---- Writing

Result<std::unique_ptr<Journal>> Journal::lock(Fd file, bool durable, const std::filesystem::path& path) {
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return with_path(Error::from_errno("locking it", errno), path);
    return with_path({ErrorCode::kFailedPrecondition, "another tuner is at work in this folder",
                      "Wait for it, or give another folder."},
                     path);
  }
  return std::make_unique<Journal>(std::move(file), durable);
}

Result<std::unique_ptr<Journal>> Journal::create(const std::filesystem::path& file, const JournalHead& head,
                                                 bool durable) {
  // The file is written under another name, so that under its own name it is complete or does not exist.
  const std::filesystem::path begun = file.string() + ".begun";
  Fd fd{::open(begun.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)};
  if (!fd) return with_path(Error::from_errno("making it", errno, "Give a folder that can be written to."), file);
  std::vector<std::byte> start(kStartBytes);
  std::memcpy(start.data(), kJournalMagic, sizeof kJournalMagic);
  std::memcpy(start.data() + sizeof kJournalMagic, &kVersion, sizeof kVersion);
  PHAROS_TRY(auto journal, lock(std::move(fd), durable, file));
  struct stat status {};
  if (::fstat(journal->file_.get(), &status) != 0) return with_path(Error::from_errno("looking at it", errno), file);
  if (status.st_nlink > 1) {
    // A tuner was killed while its journal had both names. The file is the journal of that sweep, so only this name
    // goes.
    journal.reset();
    if (::unlink(begun.c_str()) != 0) return with_path(Error::from_errno("removing its second name", errno), file);
    return create(file, head, durable);
  }
  // The file may have bytes of a killed tuner. It is emptied only after it was locked.
  PHAROS_TRY_VOID(journal->go_on_at(0));
  journal->pending_ = std::move(start);
  PHAROS_TRY(const auto payload, to_bytes(head));
  journal->append_frame(payload);
  if (auto synced = journal->sync(); !synced) return with_path(std::move(synced).error(), file);
  if (::link(begun.c_str(), file.c_str()) != 0) {
    const int why = errno;
    ::unlink(begun.c_str());
    if (why != EEXIST) return with_path(Error::from_errno("making it", why), file);
    return with_path({ErrorCode::kAlreadyExists, "there is a sweep in this folder",
                      "Continue that sweep with restore(), or give run() another folder."},
                     file);
  }
  ::unlink(begun.c_str());
  const Fd folder{::open(file.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  if (durable && folder) ::fsync(folder.get());
  return journal;
}

Result<std::unique_ptr<Journal>> Journal::open(const std::filesystem::path& file, bool durable) {
  Fd fd{::open(file.c_str(), O_RDWR | O_CLOEXEC)};
  if (!fd) return with_path(Error::from_errno("opening it", errno), file);
  return lock(std::move(fd), durable, file);
}

Result<void> Journal::go_on_at(std::uint64_t bytes) {
  if (::ftruncate(file_.get(), static_cast<off_t>(bytes)) != 0 ||
      ::lseek(file_.get(), static_cast<off_t>(bytes), SEEK_SET) < 0) {
    return Error::from_errno("cutting off the incomplete end of a sweep's journal", errno);
  }
  const std::lock_guard lock{mutex_};
  end_ = synced_ = bytes;
  return {};
}

Journal::Journal(Fd file, bool durable) : file_{std::move(file)}, durable_{durable}, syncing_{[this] { run(); }} {}

Journal::~Journal() {
  static_cast<void>(sync());  // write() has returned the error before, or the sweep has ended with another error
  {
    const std::lock_guard lock{mutex_};
    ends_ = true;
  }
  changed_.notify_all();
  ending_.notify_all();
  syncing_.join();
}

void Journal::append(const SweepEvent& event) {
  const auto payload = to_bytes(event);
  append_frame(payload.value());
}

void Journal::append_frame(std::span<const std::byte> payload) {
  std::uint32_t head[3] = {static_cast<std::uint32_t>(payload.size()), crc32c(payload), 0};
  head[2] = crc32c(std::as_bytes(std::span{head}.first(2)));
  const auto head_bytes = std::as_bytes(std::span{head});
  pending_.insert(pending_.end(), head_bytes.begin(), head_bytes.end());
  pending_.insert(pending_.end(), payload.begin(), payload.end());
}

Result<void> Journal::write() {
  {
    const std::lock_guard lock{mutex_};
    if (failed_) return *failed_;
  }
  if (pending_.empty()) return {};
  auto written = write_whole(file_, pending_, "writing the sweep's journal",
                             "Make room where its folder is, and go on with the sweep by restore().");
  const std::lock_guard lock{mutex_};
  if (!written) {
    // A part of an event with other events behind it would make the journal unreadable, so that part is cut off.
    if (::ftruncate(file_.get(), static_cast<off_t>(end_)) == 0) ::lseek(file_.get(), 0, SEEK_END);
    failed_ = written.error();
    return written;
  }
  end_ += pending_.size();
  pending_.clear();
  changed_.notify_all();
  return {};
}

Result<void> Journal::sync() {
  PHAROS_TRY_VOID(write());
  if (!durable_) return {};
  sync_file();
  const std::lock_guard lock{mutex_};
  if (failed_) return *failed_;
  return {};
}

// The kernel reports a failure to only one of the calls. So the calls come one after the other, and the one that learns
// of the failure keeps it before the next call begins.
void Journal::sync_file() {
  const std::lock_guard turn{syncs_};
  if (::fdatasync(file_.get()) == 0) return;
  const int error = errno;
  const std::lock_guard lock{mutex_};
  failed_ = Error::from_errno("syncing the sweep's journal", error);
}

void Journal::run() {
  std::unique_lock lock{mutex_};
  while (!ends_) {
    changed_.wait(lock, [this] { return ends_ || (durable_ && end_ != synced_ && !failed_); });
    if (ends_) return;
    const std::uint64_t end = end_;
    lock.unlock();
    sync_file();
    lock.lock();
    synced_ = end;
    ending_.wait_for(lock, kSyncTime, [this] { return ends_; });
  }
}

}  // namespace pharos::ml

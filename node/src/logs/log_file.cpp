#include "logs/log_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include <pharos/base/fd.hpp>

namespace pharos::node {

std::string read_part(const std::string& path, std::uint64_t from, std::uint64_t most) {
  std::string text;
  const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file) return text;
  text.resize(most);
  std::size_t got = 0;
  while (got < text.size()) {
    const ssize_t n = ::pread(file.get(), text.data() + got, text.size() - got, static_cast<off_t>(from + got));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
  }
  text.resize(got);
  return text;
}

void LogFile::append(std::string_view text, std::uint64_t most) {
  const std::lock_guard lock{mutex_};
  const std::uint64_t half = std::max<std::uint64_t>(most / 2, 1);
  std::string behind_notice;
  std::size_t notice = 0;  // how many bytes at the beginning of `text` say what is missing, and are no output
  if (left_out_ != 0) {
    behind_notice =
        "*** " + std::to_string(left_out_) + " bytes are missing: they could not be written to the log file\n";
    notice = behind_notice.size();
    behind_notice += text;
    text = behind_notice;
  }
  const auto pass = [&](std::size_t bytes) {
    end_ += bytes;
    text.remove_prefix(bytes);
    notice -= std::min(notice, bytes);
    if (notice == 0) left_out_ = 0;
  };
  if (text.size() > most) {  // its end is kept, and nothing that was written before it
    pass(text.size() - most);
    forget();
  }
  while (!text.empty()) {
    if (end_ - turned_ >= half) turn_over();
    const std::size_t piece = std::min<std::size_t>(text.size(), half - (end_ - turned_));
    const std::size_t written = write(text.substr(0, piece));
    pass(written);
    if (written == piece) continue;
    left_out_ += text.size() - notice;
    break;
  }
  note_kept();
}

std::size_t LogFile::write(std::string_view text) {
  const auto open_file = [&] { return Fd{::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600)}; };
  Fd file = open_file();
  if (!file && errno == ENOENT) {
    ::mkdir(path_.substr(0, path_.rfind('/')).c_str(), 0700);
    file = open_file();
  }
  std::size_t written = 0;
  while (file && written < text.size()) {
    const ssize_t n = ::write(file.get(), text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    written += static_cast<std::size_t>(n);
  }
  return written;
}

void LogFile::turn_over() {
  if (::rename(path_.c_str(), older_path().c_str()) != 0) return forget();
  begin_ = turned_;
  turned_ = end_;
}

void LogFile::forget() {
  ::unlink(path_.c_str());
  ::unlink(older_path().c_str());
  begin_ = turned_ = end_;
}

wire::LogPart LogFile::read(std::uint64_t from, std::uint32_t most) const {
  const std::lock_guard lock{mutex_};
  wire::LogPart part{.from = std::clamp(from, begin_, end_), .text = {}, .size = end_};
  const std::uint64_t until = part.from + std::min<std::uint64_t>(most, end_ - part.from);
  if (part.from < turned_)
    part.text = read_part(older_path(), part.from - begin_, std::min(until, turned_) - part.from);
  const std::uint64_t next = part.from + part.text.size();
  if (next >= turned_ && next < until) part.text += read_part(path_, next - turned_, until - next);
  return part;
}

void LogFile::drop_older() {
  const std::lock_guard lock{mutex_};
  if (begin_ == turned_) turn_over();
  ::unlink(older_path().c_str());
  begin_ = turned_;
  note_kept();
}

void LogFile::remove() {
  const std::lock_guard lock{mutex_};
  forget();
  note_kept();
}

}  // namespace pharos::node

#include "store/program_files.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/process/build_id.hpp>

#include "says.hpp"
#include "store/program_transfer.hpp"
#include "store/received_files.hpp"
#include "temporary_folder.hpp"

namespace pharos::node {
namespace {

namespace fs = std::filesystem;

/// One end of a connection within this process. The destructor ends the connection.
class SocketEnd final : public object_store::Stream {
 public:
  explicit SocketEnd(int socket) : socket_{socket} {}
  using Stream::send;
  Result<void> send(std::span<const std::byte> head, std::span<const std::byte> body) override {
    for (auto part : {head, body}) {
      while (!part.empty()) {
        const ssize_t sent = ::send(socket_.get(), part.data(), part.size(), MSG_NOSIGNAL);
        if (sent <= 0) return Error{ErrorCode::kUnavailable, "the other end is gone"};
        part = part.subspan(static_cast<std::size_t>(sent));
        sent_ += static_cast<std::size_t>(sent);
        if (sent_ >= breaks_at) return Error{ErrorCode::kUnavailable, "the connection broke"};
      }
    }
    return {};
  }
  Result<void> receive(std::span<std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t received = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_WAITALL);
      if (received <= 0) return Error{ErrorCode::kUnavailable, "the other end is gone"};
      bytes = bytes.subspan(static_cast<std::size_t>(received));
    }
    return {};
  }
  std::size_t breaks_at = ~std::size_t{0};

 private:
  Fd socket_;
  std::size_t sent_ = 0;
};

std::string read(const fs::path& path) {
  std::ifstream file{path, std::ios::binary};
  return {std::istreambuf_iterator<char>{file}, {}};
}

/// A program of a driver's machine, here the folder "there", and a node with a folder for what it receives.
class ProgramFilesTest : public testing::Test {
 protected:
  ProgramFilesTest() {
    fs::create_directories(there() / "data" / "deep");
    program.executable = (there() / "app").string();
    program.folder = there().string();
    write(program.executable, "this is the program");
    fs::permissions(program.executable, fs::perms::owner_all);
    program.build_id = content_of(program.executable);
  }

  fs::path there() const { return folder_.path() / "there"; }
  fs::path hidden() const { return folder_.path() / "hidden"; }
  std::string received() const { return (folder_.path() / "received").string(); }
  static void write(const fs::path& path, const std::string& text) { std::ofstream{path, std::ios::binary} << text; }
  static wire::BuildId content_of(const std::string& path) {
    const Fd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    return process::build_id_of(file.get()).value();
  }
  void add_library(const std::string& name, const std::string& text) {
    write(there() / name, text);
    program.files.push_back({(there() / name).string(), content_of(there() / name), text.size()});
  }
  void add_file(const std::string& name, const std::string& text) {
    write(there() / name, text);
    program.files.push_back({name, content_of(there() / name), text.size()});
  }

  /// The driver's machine is seen by the sender only.
  Result<void> receive(ArrivingProgram& into, std::size_t breaks_at = ~std::size_t{0}) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    wire::RegisterJob seen = program;
    seen.folder = hidden().string();
    for (auto& file : seen.files) {
      if (file.is_library()) file.path = hidden() / fs::path{file.path}.filename();
    }
    std::thread sender{[&, end = ends[1]] {
      SocketEnd stream{end};
      stream.breaks_at = breaks_at;
      const Fd executable{::open((hidden() / "app").c_str(), O_RDONLY | O_CLOEXEC)};
      send_program(stream, executable, seen, (folder_.path() / "none").string());
    }};
    Result<void> end;
    {
      SocketEnd stream{ends[0]};
      end = into.receive(stream, received());
    }
    sender.join();
    return end;
  }
  ProgramHere open() {
    auto here = open_program(received(), program);
    EXPECT_TRUE(here.ok()) << here.error().to_string();
    return here ? *std::move(here) : ProgramHere{};
  }
  void hide() const { fs::rename(there(), hidden()); }
  /// Hides the driver's machine, and brings everything from there.
  ProgramHere bring() {
    hide();
    const auto missing = open().missing;
    ArrivingProgram arriving{program, missing};
    const auto end = receive(arriving);
    EXPECT_TRUE(end.ok()) << end.error().to_string();
    return open();
  }

  TemporaryFolder folder_;
  wire::RegisterJob program;
};

TEST_F(ProgramFilesTest, WhatLiesAtItsPathIsUsedThere) {
  add_library("libone.so", "one");
  add_file("data/words", "some words");
  const auto here = open();
  EXPECT_TRUE(here.missing.empty());
  EXPECT_TRUE(here.executable);
  EXPECT_EQ(here.folder, program.folder);
  EXPECT_EQ(here.own_folder, "");
  EXPECT_EQ(here.libraries_folder, "");
  EXPECT_FALSE(fs::exists(received()));
}

TEST_F(ProgramFilesTest, WhatIsMissingComesAndIsFoundByTheSameNames) {
  add_library("libone.so.1", "one");
  add_file("data/words", "some words");
  add_file("data/deep/empty", "");
  add_file("data/deep/large", std::string(700'000, 'x'));
  const auto here = bring();
  EXPECT_TRUE(here.missing.empty());
  EXPECT_TRUE(here.executable);
  EXPECT_EQ(read(fs::path{here.libraries_folder} / "libone.so.1"), "one");
  EXPECT_EQ(read(fs::path{here.folder} / "data/words"), "some words");
  EXPECT_EQ(read(fs::path{here.folder} / "data/deep/empty"), "");
  EXPECT_EQ(read(fs::path{here.folder} / "data/deep/large"), std::string(700'000, 'x'));
  EXPECT_TRUE(here.folder.starts_with(here.own_folder));
  EXPECT_TRUE(here.libraries_folder.starts_with(here.own_folder));
}

TEST_F(ProgramFilesTest, FilesOfOneContentComeOnce) {
  add_file("data/a", "the same");
  add_file("data/b", "the same");
  hide();
  EXPECT_EQ(open().missing.size(), 2U);  // with the executable
  fs::rename(hidden(), there());
  const auto here = bring();
  EXPECT_EQ(read(fs::path{here.folder} / "data/a"), "the same");
  EXPECT_EQ(read(fs::path{here.folder} / "data/b"), "the same");
}

TEST_F(ProgramFilesTest, OfTwoLibrariesWithOneNameTheFirstIsFound) {
  fs::create_directory(there() / "plugins");
  add_library("libone.so", "one");
  add_library("plugins/libone.so", "another one");
  fs::create_directories(hidden());
  fs::rename(there() / "app", hidden() / "app");
  ArrivingProgram arriving{program, open().missing};
  EXPECT_TRUE(receive(arriving).ok());
  EXPECT_EQ(read(fs::path{open().libraries_folder} / "libone.so"), "one");
}

TEST_F(ProgramFilesTest, LibrariesAtTheirPathAreLinkedForAnExecutableThatIsNot) {
  add_library("libone.so", "one");
  fs::rename(there() / "app", there() / "hidden");
  const auto missing = open().missing;
  EXPECT_EQ(missing, std::vector{program.build_id});
  fs::create_directory(hidden());
  fs::rename(there() / "hidden", hidden() / "app");
  ArrivingProgram arriving{program, missing};
  EXPECT_TRUE(receive(arriving).ok());
  const auto here = open();
  EXPECT_TRUE(fs::is_symlink(fs::path{here.libraries_folder} / "libone.so"));
  EXPECT_EQ(read(fs::path{here.libraries_folder} / "libone.so"), "one");
  EXPECT_EQ(here.folder, program.folder);
}

TEST_F(ProgramFilesTest, AnotherFileAtThePathIsNotUsed) {
  add_file("data/words", "some words");
  write(there() / "data/words", "more words");  // as long, but another content
  EXPECT_EQ(open().missing, std::vector{program.files[0].content});
  write(there() / "data/words", "some words");
  EXPECT_TRUE(open().missing.empty());
}

TEST_F(ProgramFilesTest, WhatHasComeBeforeABreakIsNotSentAgain) {
  add_file("data/first", std::string(600'000, '1'));
  add_file("data/second", std::string(600'000, '2'));
  hide();
  ArrivingProgram arriving{program, open().missing};
  EXPECT_EQ(receive(arriving, 1'000'000).error().code(), ErrorCode::kUnavailable);
  const auto had = arriving.arrived();
  EXPECT_GT(had, 600'000U);
  EXPECT_EQ(open().missing, std::vector{program.files[1].content});
  // The rest fits into a stream that breaks before it could carry everything.
  EXPECT_TRUE(receive(arriving, 600'000).ok());
  EXPECT_EQ(arriving.arrived(), 1'200'000U + fs::file_size(hidden() / "app"));
  EXPECT_TRUE(open().missing.empty());
}

TEST_F(ProgramFilesTest, AFileThatChangedAfterTheProgramBeganIsNamed) {
  add_library("libone.so", "one");
  hide();
  write(hidden() / "libone.so", "two");
  ArrivingProgram arriving{program, open().missing};
  const auto end = receive(arriving);
  EXPECT_EQ(end.error().code(), ErrorCode::kNotFound);
  EXPECT_SAYS(end.error().message(), "libone.so is not there any more, or was changed since");
}

TEST_F(ProgramFilesTest, WithoutAnExecutableTheJobHasEnded) {
  hide();
  fs::remove(hidden() / "app");
  ArrivingProgram arriving{program, open().missing};
  EXPECT_EQ(receive(arriving).error().code(), ErrorCode::kNotFound);
}

TEST_F(ProgramFilesTest, AReceivedFileThatAWorkerHasChangedIsSentAgain) {
  add_file("data/words", "some words");
  const auto first = bring();
  write(fs::path{first.folder} / "data/words", "MORE WORDS");
  EXPECT_EQ(open().missing, std::vector{program.files[0].content});
  ArrivingProgram arriving{program, std::vector{program.files[0].content}};
  EXPECT_TRUE(receive(arriving).ok());
  EXPECT_EQ(read(fs::path{open().folder} / "data/words"), "some words");
}

TEST_F(ProgramFilesTest, WhatJobsUseStaysWhenRoomIsMade) {
  add_file("data/words", "some words");
  auto here = bring();
  // All that the disk has beyond what must stay free is asked for, so everything unused goes.
  static_cast<void>(make_room(received(), ByteCount{std::uint64_t{1} << 60}));
  EXPECT_TRUE(fs::exists(path_of_received(received(), program.build_id)));
  EXPECT_TRUE(fs::exists(path_of_received(received(), program.files[0].content)));
  here.executable.reset();
  fs::remove_all(here.own_folder);
  static_cast<void>(make_room(received(), ByteCount{std::uint64_t{1} << 60}));
  EXPECT_FALSE(fs::exists(path_of_received(received(), program.build_id)));
  EXPECT_FALSE(fs::exists(path_of_received(received(), program.files[0].content)));
}

TEST_F(ProgramFilesTest, OwnFoldersThatWereLeftBehindAreRemoved) {
  add_file("data/words", "some words");
  const auto here = bring();
  ASSERT_TRUE(fs::exists(here.own_folder));
  remove_own_folders(received());
  EXPECT_FALSE(fs::exists(here.own_folder));
  EXPECT_TRUE(open().missing.empty());
}

TEST_F(ProgramFilesTest, PathsThatLeadOutOfTheFolderAreRefused) {
  for (const char* const path : {"../words", "data/../../words", "", "data/", ".", "/"}) {
    program.files = {{path, {}, 0}};
    EXPECT_EQ(open_program(received(), program).error().code(), ErrorCode::kInvalidArgument) << path;
  }
}

}  // namespace
}  // namespace pharos::node

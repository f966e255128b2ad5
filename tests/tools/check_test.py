"""Each rule of ./check finds what breaks it, and leaves alone what does not."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]


class CheckTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pharos-check-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.git("init", "-q", "-b", "main")
        for name in (".clang-format", ".clang-tidy"):
            self.write(name, (ROOT / name).read_text())

    def git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *arguments], cwd=self.root, check=True, capture_output=True)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def check(self, *arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, ROOT / "tools/check/main.py", "--root", self.root, "--build", self.root / "build"]
        return subprocess.run([*command, *arguments], capture_output=True, text=True)

    def refused(self, check: str, place: str, *words: str) -> None:
        run = self.check(check)
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        line = next((line for line in run.stdout.splitlines() if line.startswith(place + ": ")), None)
        self.assertIsNotNone(line, f"no line for {place} in:\n{run.stdout}")
        for word in words:
            self.assertIn(word, line)

    def passes(self, check: str) -> None:
        run = self.check(check)
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)

    # --- format

    def test_format_refuses_a_file_that_clang_format_would_change_and_fix_mends_it(self):
        self.write("runtime/base/src/a.cpp", "int  a( );\n")
        self.refused("format", "runtime/base/src/a.cpp:1", "check format --fix")
        self.check("format", "--fix")
        self.assertEqual((self.root / "runtime/base/src/a.cpp").read_text(), "int a();\n")
        self.passes("format")

    # --- includes

    def test_includes_refuses_an_upward_arrow(self):
        self.write("runtime/net/include/pharos/net/link.hpp", "#pragma once\n")
        self.write("runtime/base/src/a.cpp", "\n#include <pharos/net/link.hpp>\n")
        self.refused("includes", "runtime/base/src/a.cpp:2", "base includes <pharos/net/link.hpp> of net")

    def test_includes_refuses_that_scheduler_and_object_store_know_each_other(self):
        self.write("object_store/include/pharos/object_store/store.hpp", "#pragma once\n")
        self.write("scheduler/src/a.cpp", "#include <pharos/object_store/store.hpp>\n")
        self.refused("includes", "scheduler/src/a.cpp:1", "of object_store")

    def test_includes_refuses_an_upward_arrow_inside_ml(self):
        self.write("ml/trainer/include/pharos/ml/trainer.hpp", "#pragma once\n")
        self.write("ml/data/src/a.cpp", "#include <pharos/ml/trainer.hpp>\n")
        self.refused("includes", "ml/data/src/a.cpp:1", "ml/data includes <pharos/ml/trainer.hpp> of ml/trainer")

    def test_includes_refuses_a_target_that_links_what_its_module_may_not_include(self):
        self.write("ml/data/CMakeLists.txt", "pharos_library(data\n  SOURCES src/a.cpp\n  DEPS pharos_base pharos_trainer)\n")
        self.refused("includes", "ml/data/CMakeLists.txt:3", "links pharos_trainer", "DEPS")
        self.write("ml/data/CMakeLists.txt", "pharos_library(data\n  SOURCES src/a.cpp\n  DEPS pharos_base)\n")
        self.passes("includes")

    def test_includes_refuses_paths_that_climb_and_headers_that_are_not_there(self):
        self.write("node/src/a.cpp", '#include "../../runtime/base/src/secret.hpp"\n#include <pharos/nowhere.hpp>\n')
        self.refused("includes", "node/src/a.cpp:1", "climbs")
        self.refused("includes", "node/src/a.cpp:2", "no public header")

    def test_includes_refuses_a_foreign_library_away_from_its_door(self):
        for included in ("capnp/message.h", "rocksdb/db.h", "spdlog/spdlog.h", "CLI/CLI.hpp", "sodium.h",
                         "torch/torch.h", "boost/asio.hpp", "nccl.h"):
            self.write("node/src/a.cpp", f"#include <{included}>\n")
            self.refused("includes", "node/src/a.cpp:1", f"<{included}>", "door")

    def test_includes_refuses_a_circle_of_units_through_their_source_files(self):
        self.write("scheduler/include/pharos/scheduler/table.hpp", "#pragma once\n")
        self.write("scheduler/src/table.cpp", '#include "rooms/lease.hpp"\n')
        self.write("scheduler/src/rooms/lease.hpp", "#pragma once\n")
        self.write("scheduler/src/rooms/lease.cpp", '#include "rooms/lease.hpp"\n#include <pharos/scheduler/table.hpp>\n')
        self.refused("includes", "scheduler/src/rooms/lease.cpp:2", "circle", "table.hpp -> lease.hpp -> table.hpp")

    def test_includes_allows_a_source_file_without_a_header_to_include_everything(self):
        self.write("scheduler/include/pharos/scheduler/table.hpp", "#pragma once\n")
        self.write("scheduler/src/lease.hpp", "#include <pharos/scheduler/table.hpp>\n")
        self.write("scheduler/src/all.cpp", '#include "lease.hpp"\n#include <pharos/scheduler/table.hpp>\n')
        self.passes("includes")

    def test_includes_allows_arrows_that_point_down_and_libraries_behind_their_door(self):
        self.write("runtime/base/include/pharos/base/id.hpp", "#pragma once\n")
        self.write("runtime/process/src/a.cpp", "#include <pharos/base/id.hpp>\n// #include <boost/asio.hpp>\n")
        self.write("runtime/storage/src/a.cpp", "#include <rocksdb/db.h>\n")
        self.write("tests/storage/a.cpp", "#include <rocksdb/db.h>\n")
        self.passes("includes")

    # --- foreign

    def test_foreign_refuses_foreign_includes_and_names_in_public_headers(self):
        header = "runtime/storage/include/pharos/storage/store.hpp"
        for text, word in (("#include <rocksdb/db.h>", "<rocksdb/db.h>"), ("rocksdb::DB* db;", "names rocksdb"),
                           ("namespace rocksdb {\nclass DB;\n}", "names rocksdb"),
                           ("SSL_CTX* context;", "names SSL_CTX"),
                           ("torch::Tensor t;", "names torch"), ("ncclComm_t comm;", "names ncclComm_t")):
            self.write(header, f"#pragma once\n{text}\n")
            self.refused("foreign", f"{header}:2", word)

    def test_foreign_allows_names_in_comments_in_sources_and_tensors_in_train(self):
        self.write("runtime/storage/include/pharos/storage/store.hpp", "// over rocksdb::DB\nint position(int at);\n")
        self.write("runtime/storage/src/store.cpp", "rocksdb::DB* db;\n")
        self.write("ml/parallel/include/pharos/ml/ddp.hpp", "#include <torch/types.h>\nvoid f(torch::Tensor t);\n")
        self.passes("foreign")

    # --- words

    def test_words_refuses_names_that_say_nothing(self):
        for name in ("ActorManager", "helper", "string_util", "path_utils", "CommonOptions", "DataInfo", "impl_",
                     "gang_id", "Helpers", "kGangSize"):
            self.write("node/src/a.cpp", f"\n\nint {name};\n")
            self.refused("words", "node/src/a.cpp:3", name)

    def test_words_refuses_them_in_names_of_files_and_folders(self):
        self.write("node/src/string_utils.cpp", "\n")
        self.refused("words", "node/src/string_utils.cpp:1", "utils")
        self.write("runtime/common/a.py", "\n")
        self.refused("words", "runtime/common/a.py:1", "common")

    def test_words_refuses_comments_that_begin_with_of(self):
        self.write("node/src/a.cpp", "int a;  // of all\n\n/// Of these two the first.\nint b;\n")
        self.refused("words", "node/src/a.cpp:3", "begin with the subject")
        self.write("node/src/a.cpp", 'int a;  ///< Of all.\nauto s = "https://Of us";\n')
        self.refused("words", "node/src/a.cpp:1", "begin with the subject")

    def test_words_refuses_folders_of_more_than_forty_source_files(self):
        for number in range(40):
            self.write(f"node/src/a{number}.cpp", "\n")
        self.passes("words")
        self.write("node/src/b.hpp", "#pragma once\n")
        self.refused("words", "node/src:1", "41 source files")

    # --- documents

    # --- classes

    def test_classes_counts_what_a_class_declares(self):
        members = """
 public:
  explicit Large(int a) : a_{a}, b_{a} {}
  Large(const Large&) = delete;
  ~Large() = default;
  bool operator==(const Large& other) const { return a_ == other.a_; }
  template <class T> std::vector<T> list(std::function<void(T)> then = {}) const;
  static int number();
  struct Inner { int x; int y; };
  enum class State { kOne, kTwo };
  using Map = std::map<int, Inner>;
  friend class Other;
 private:
  static constexpr int kMax = 3;
  int a_ = 1, b_{2};
  std::map<int, std::pair<int, int>> pairs_{{1, {2, 3}}};
  std::function<void(int)> callback_;
"""
        methods = "".join(f"  void method_{i}(int x);\n" for i in range(37))
        fields = "".join(f"  std::vector<int> field_{i};\n" for i in range(17))
        self.write("node/src/a.hpp", f"class Large {{{members}{methods}{fields}}};\n")
        self.refused("classes", "node/src/a.hpp:1", "Large has 41 methods and 21 fields")

    def test_classes_allows_forty_methods_and_twenty_fields(self):
        methods = "".join(f"  void method_{i}() {{ field_0 = {i}; }}\n" for i in range(40))
        fields = "".join(f"  int field_{i};\n" for i in range(20))
        self.write("node/src/a.hpp", f"class Small {{\n{methods}{fields}}};\n")
        self.passes("classes")

    # --- namespaces

    def test_namespaces_refuses_a_definition_in_the_namespace_of_another_folder(self):
        self.write("node/src/a.hpp", "namespace pharos::node {\nint a;\n}\nnamespace pharos {\nnamespace net {\nint b;\n}\n}\n")
        self.refused("namespaces", "node/src/a.hpp:5", "namespace pharos::net does not belong here")
        self.write("node/src/a.hpp", "namespace pharos::net {\nnamespace {\nint b;\n}\n}\n")
        self.refused("namespaces", "node/src/a.hpp:2", "namespace pharos::net does not belong here")

    def test_namespaces_allows_declarations_of_what_another_folder_defines(self):
        self.write("node/src/a.hpp", "namespace pharos::net {\nclass Link;\ntemplate <class T> struct Box;\n}\n"
                                     "namespace pharos::node {\nnamespace {\nvoid f() { if (true) {} }\n}\n}\n")
        self.passes("namespaces")

    def test_documents_refuses_what_is_not_there(self):
        self.write("node/src/a.cpp", 'add("--limit"); add("list");\n')
        self.write("docs/page.md", "See [a](../node/src/a.cpp), `node/src/a.cpp`, `node/*/a.cpp`, `a.cpp`, `pharos list --limit 3`.\n"
                                   "```sh\ncat node/src/gone.cpp --gone\n```\n")
        self.passes("documents")
        for text, named in (("[a](gone.md)", "gone.md"), ("`node/src/gone.cpp`", "node/src/gone.cpp"), ("`gone.hpp`", "gone.hpp"),
                            ("`pharos list --gone`", "--gone"), ("`pharos gone`", "pharos gone"), ("`./gone`", "./gone")):
            self.write("docs/page.md", f"\n{text}\n")
            self.refused("documents", "docs/page.md:2", named)

    def test_words_refuses_task_for_a_coroutine(self):
        self.write("node/src/a.cpp", "Task<int> f();\n")
        self.refused("words", "node/src/a.cpp:1", "Async<T>")
        self.write("node/src/a.cpp", "\nint co_task_count;\n")
        self.refused("words", "node/src/a.cpp:2", "Async<T>")

    def test_words_allows_the_name_that_torch_module_asks_for(self):
        self.write("examples/a.cpp", "struct MlpImpl {};\nTORCH_MODULE(Mlp);\n")
        self.passes("words")
        self.write("examples/a.cpp", "struct OtherImpl {};\nTORCH_MODULE(Mlp);\n")
        self.refused("words", "examples/a.cpp:1", "impl")

    def test_words_allows_tasks_foreign_names_comments_and_strings(self):
        self.write("node/src/a.cpp", '// a helper\nstd::common_type_t<int, long> n;\nTask task;\nauto s = "common";\n'
                                     "LogLevel level = LogLevel::kInfo;\nspdlog::level::info;\nsiginfo_t s;\n"
                                     "options.info_log = 1;\nint simple;\n")
        self.passes("words")

    # --- coroutines

    def test_coroutines_refuses_a_capturing_lambda_that_is_a_coroutine(self):
        for text in ("auto f = [&]() -> Async<void> { co_return; };",
                     "run([this, x = 1](int n) -> Async<int> { co_return n; });",
                     "run([=] { co_await g(); });", "return [self] mutable noexcept -> Async<void> { co_await x; };"):
            self.write("node/src/a.cpp", f"Async<void> h() {{\n  {text}\n}}\n")
            self.refused("coroutines", "node/src/a.cpp:2", "captures")

    def test_coroutines_allows_coroutines_without_captures_and_captures_without_coroutines(self):
        self.write("node/src/a.cpp", """
Async<void> f() {
  auto plain = []() -> Async<void> { co_return; };
  auto outer = [&] { return []() -> Async<int> { co_return 1; }; };
  for (auto& [name, value] : values) { co_await value; }
  int array[3]{1, 2, 3};
  co_await items[0];
  run([[maybe_unused]] int{1});
}
""")
        self.passes("coroutines")

    def test_coroutines_refuses_a_static_coroutine_that_gets_its_object(self):
        self.write("node/src/a.hpp", "class A {\n  static async::Async<Result<void>> f(A* self, int x);\n};\n")
        self.refused("coroutines", "node/src/a.hpp:2", "make it a member")
        self.write("node/src/a.hpp", "class A {\n  static Async<void> f(std::shared_ptr<A> self);\n  Async<void> g(A* a);\n};\n")
        self.passes("coroutines")

    def test_coroutines_refuses_a_condition_that_awaits(self):
        for text in ("if (co_await f()) return;", "while (x && co_await f()) {}", "if (auto r = g(); co_await r) {}",
                     "for (; co_await f();) {}", "switch (co_await f()) {}"):
            self.write("node/src/a.cpp", f"Async<void> h() {{\n  {text}\n}}\n")
            self.refused("coroutines", "node/src/a.cpp:2", "awaits")

    def test_coroutines_allows_what_awaits_before_or_after_a_condition(self):
        self.write("node/src/a.cpp", """
Async<void> f() {
  if (const auto result = co_await g(); result) co_await h();
  while (going) { co_await g(); }
}
""")
        self.passes("coroutines")

    # --- headers, tidy

    def build(self, header: str) -> None:
        self.write("CMakeLists.txt", """
cmake_minimum_required(VERSION 3.25)
project(sample CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
add_library(sample STATIC runtime/base/src/a.cpp)
target_sources(sample PUBLIC FILE_SET HEADERS BASE_DIRS runtime/base/include FILES runtime/base/include/pharos/a.hpp)
set_target_properties(sample PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
""")
        self.write("runtime/base/src/a.cpp", "#include <string>\n#include <pharos/a.hpp>\n")
        self.write("runtime/base/include/pharos/a.hpp", header)
        self.write(".gitignore", "/build/\n")
        subprocess.run(["cmake", "-G", "Ninja", "-B", self.root / "build", "-S", self.root], check=True,
                       capture_output=True)

    def test_headers_refuses_a_public_header_that_does_not_compile_alone(self):
        self.build("#pragma once\nstd::string name();\n")
        self.refused("headers", "runtime/base/include/pharos/a.hpp:1", "does not compile alone")
        self.write("runtime/base/include/pharos/a.hpp", "#pragma once\n#include <string>\nstd::string name();\n")
        self.passes("headers")

    def test_tidy_refuses_a_name_of_the_wrong_form_in_source_and_header(self):
        self.build("#pragma once\nstruct wrong_form {};\n")
        self.write("runtime/base/src/a.cpp", "#include <pharos/a.hpp>\nint WrongForm() { return 1; }\n")
        self.refused("tidy", "runtime/base/src/a.cpp:2", "WrongForm")
        self.refused("tidy", "runtime/base/include/pharos/a.hpp:2", "wrong_form")

    def test_tidy_looks_at_what_changed_since_main_and_at_everything_when_asked(self):
        self.build("#pragma once\n")
        self.write("runtime/base/src/a.cpp", "int WrongForm() { return 1; }\n")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "base: a wrong name, long ago")
        self.git("commit", "-q", "--allow-empty", "-m", "base: nothing")
        self.passes("tidy")
        self.assertEqual(self.check("tidy", "--all").returncode, 1)
        self.assertEqual(self.check("tidy", "--since", "HEAD").returncode, 0)
        self.git("checkout", "-q", "-b", "work")
        self.write("runtime/base/src/a.cpp", "\nint WrongForm() { return 1; }\n")
        self.git("commit", "-q", "-a", "-m", "base: on a branch")
        self.git("commit", "-q", "--allow-empty", "-m", "base: nothing")
        self.refused("tidy", "runtime/base/src/a.cpp:2", "WrongForm")

    # --- the tool itself

    def test_a_name_that_is_no_check_is_an_error(self):
        run = self.check("speling")
        self.assertEqual(run.returncode, 2)
        self.assertIn("speling", run.stderr)


if __name__ == "__main__":
    unittest.main()

"""Types that must not travel: the compiler stops, and what it says first is the sentence that tells what to do."""

import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

# What travels: shows that the others fail for no other reason.
ACCEPTED = """
struct Inner { int a; char name[16]; std::string text; };
struct Sent { Inner inner; std::map<std::string, std::vector<Inner>> map; std::unique_ptr<Sent> next; };
"""

EIGHT = " ".join(f"int {{0}}{i};" for i in range(8))
MANY_FIELDS = " ".join(EIGHT.format(row) for row in "abcdefgh") + " int last;"

# name: (declarations, in which Sent is what is to travel; what the compiler says)
REFUSED = {
    "pointer": ("using Sent = int*;", "a pointer means nothing in another process"),
    "pointer in a struct": ("struct Sent { int a; const char* name; };", "a pointer means nothing in another process"),
    "pointer deep inside": ("struct Inner { void* p; };\n"
                            "using Sent = std::map<std::string, std::vector<std::optional<Inner>>>;",
                            "a pointer means nothing in another process"),
    "array of pointers": ("struct Sent { int* a[3]; };", "a pointer means nothing in another process"),
    "pointer to a member": ("struct S { int a; }; using Sent = int S::*;", "a pointer means nothing"),
    "nullptr": ("using Sent = std::nullptr_t;", "a pointer means nothing in another process"),
    "tuple of references": ("using Sent = std::tuple<int, int&>;", "a reference means nothing in another process"),
    "const reference in a struct": ("struct Sent { int a; const int& b; };", "a reference means nothing"),
    "reference in a struct": ("struct Sent { int a; int& b; };", "this struct has a field that is a reference"),
    "function pointer": ("using Sent = int (*)(int);", "a function cannot be sent as a value: name it in the call"),
    "std::function": ("using Sent = std::function<int(int)>;", "a function cannot be sent as a value"),
    "pointer to a method": ("struct S { void f(); }; using Sent = void (S::*)();", "a function cannot be sent"),
    "string_view": ("using Sent = std::string_view;", "a view refers to this process's memory: pass what owns"),
    "span": ("using Sent = std::span<int>;", "a view refers to this process's memory"),
    "ranges view": ("using Sent = std::ranges::iota_view<int, int>;", "a view refers to this process's memory"),
    "reference_wrapper": ("using Sent = std::reference_wrapper<int>;", "a view refers to this process's memory"),
    "initializer_list": ("using Sent = std::initializer_list<int>;", "a view refers to this process's memory"),
    "shared_ptr": ("using Sent = std::vector<std::shared_ptr<int>>;", "a shared_ptr or weak_ptr cannot share"),
    "weak_ptr": ("using Sent = std::weak_ptr<int>;", "a shared_ptr or weak_ptr cannot share its object"),
    "unique_ptr to an array": ("using Sent = std::unique_ptr<int[]>;", "a unique_ptr travels only if it owns one"),
    "unique_ptr with a deleter": ("struct D { void operator()(int*) const; }; using Sent = std::unique_ptr<int, D>;",
                                  "a unique_ptr travels only if it owns one object"),
    "unique_ptr to a base": ("struct S { virtual ~S(); }; using Sent = std::unique_ptr<S>;",
                             "may own an object of a derived class"),
    "mutex": ("struct Sent { int a; std::mutex m; };", "a mutex, thread, atomic or future belongs to its process"),
    "thread": ("using Sent = std::thread;", "a mutex, thread, atomic or future belongs to its process"),
    "atomic": ("using Sent = std::atomic<int>;", "a mutex, thread, atomic or future belongs to its process"),
    "future": ("using Sent = std::future<int>;", "a mutex, thread, atomic or future belongs to its process"),
    "union": ("union Sent { int a; float b; };", "nothing says which member of a union is set: use std::variant"),
    "union in a struct": ("struct Sent { union { int a; float b; } u; };", "nothing says which member of a union"),
    "long double": ("struct Sent { long double d; };", "long double has another size and precision"),
    "complex of long doubles": ("using Sent = std::complex<long double>;", "long double has another size"),
    "enum without a type": ("enum Sent { kOne };", "not every number is a value of this enum"),
    "comparison with a state": ("struct Less { int by; bool operator()(int a, int b) const { return a % by < b; } };\n"
                                "using Sent = std::set<int, Less>;", "comparison or hash has a state"),
    "comparison by a function": ("using Sent = std::map<int, int, bool (*)(int, int)>;",
                                 "comparison or hash has a state"),
    "virtual functions": ("struct Sent { virtual int f(); int a; };", "a class with virtual functions must say"),
    "base class": ("struct B { int a; }; struct Sent : B { int b; };", "a struct with a base class must say"),
    "empty base class": ("struct B {}; struct Sent : B { int b; };", "a struct with a base class must say"),
    "derived from a container": ("struct Sent : std::vector<int> { int b; };", "a struct with a base class must say"),
    "65 fields": (f"struct Sent {{ {MANY_FIELDS} }};", "this struct has more than 64 fields"),
    "inherited pharos_fields": ("struct B { int a; auto pharos_fields() { return std::tie(a); } };\n"
                                "struct Sent : B { int b; };", "inherits pharos_fields()"),
    "const pharos_fields": ("struct Sent { int a; auto pharos_fields() const { return std::tie(a); } };",
                            "pharos_fields() must be one function, not const"),
    "pharos_fields of values": ("struct Sent { int a; auto pharos_fields() { return std::make_tuple(a); } };",
                                "pharos_fields() must be one function, not const"),
    "no default constructor": ("struct Sent { explicit Sent(int n) : a{n} {} int a;\n"
                               "  auto pharos_fields() { return std::tie(a); } };", "needs a default constructor"),
    "private members": ("class Sent { int* hidden; };", "this class has private members or constructors"),
    "pointer in pharos_fields": ("class Sent { int* p; public: auto pharos_fields() { return std::tie(p); } };",
                                 "a pointer means nothing in another process"),
    "abstract class": ("struct Sent { virtual int f() = 0; };", "a class with virtual functions must say"),
    "iterator": ("using Sent = std::vector<int>::iterator;", "this class has private members or constructors"),
    "to_bytes without a format": ("class Sent { int a; };\n"
                                  "template <> struct pharos::Codec<Sent> : pharos::PlainCodec<Sent> {};\n"
                                  "auto stored(const Sent& sent) { return pharos::to_bytes(sent); }",
                                  "to_bytes() needs a name for the format"),
}

HEADERS = ["atomic", "complex", "functional", "future", "map", "memory", "mutex", "optional", "ranges", "set", "span",
           "string", "string_view", "thread", "tuple", "vector", "pharos/wire/stored_codec.hpp"]


def errors_of(folder: pathlib.Path, number: int, declarations: str) -> list[str]:
    source = folder / f"{number}.cpp"
    source.write_text(f'#include "headers.hpp"\n{declarations}\n'
                      "void send(const Sent& sent, pharos::Encoder& to) {\n"
                      "  pharos::detail::check_travels<Sent>();\n"
                      "  pharos::Codec<Sent>::encode(sent, to);\n}\n")
    run = subprocess.run([*COMPILE, "-fsyntax-only", source], capture_output=True, text=True, timeout=60)
    errors = [line for line in run.stderr.splitlines() if re.search(r"\berror: ", line)]
    assert (run.returncode != 0) == bool(errors), run.stderr
    return errors


class RefusalsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="pharos-compile-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        header = self.folder / "headers.hpp"
        header.write_text("".join(f"#include <{name}>\n" for name in HEADERS))
        # GCC takes it instead of the header itself, which makes each program five times faster to compile.
        subprocess.run([*COMPILE, "-x", "c++-header", header, "-o", f"{header}.gch"], check=True, timeout=60)

    def test_what_travels_compiles_and_what_does_not_is_refused_with_one_sentence(self):
        self.assertEqual(errors_of(self.folder, len(REFUSED), ACCEPTED), [])
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = pool.map(lambda case: errors_of(self.folder, *case),
                             enumerate(declarations for declarations, _ in REFUSED.values()))
            for (name, (_, sentence)), errors in zip(REFUSED.items(), found):
                with self.subTest(name):
                    self.assertEqual(len(errors), 1, "\n".join(errors) or "it compiled")
                    self.assertIn(sentence, errors[0])


if __name__ == "__main__":
    COMPILE = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])

"""What must not travel or be called: the compiler stops, and what it says is the sentence that tells what to do."""

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
    "union": ("union Sent { int a; float b; };", "a union does not record which member is set: use std::variant"),
    "union in a struct": ("struct Sent { union { int a; float b; } u; };", "a union does not record which member"),
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

# What a call can say: each of these is accepted.
CALLS = """
int add(int a, int b = 1);
int sum(const std::string& text, int&& value);
template <class T> T same(T value);
struct Base { int inherited() const; virtual ~Base() = default; };
struct Counter : Base {
  Counter(int start, std::string name = "");
  int add(int n) &;
  int add(double n) const& noexcept;
  static int made();
};
struct Times { int by; int operator()(int value) const { return by * value; } };
"""
ACCEPTED_CALLS = ["runtime.submit<&add>(1, 2)", "runtime.submit<add>({.max_retries = 1}, 1, 2)",
                  "runtime.submit<&sum>(\"text\", 1)", "runtime.submit<&same<int>>(1)",
                  "runtime.submit<&Counter::made>()", "runtime.submit<[](int value) { return value; }>(1)",
                  "runtime.submit<Times{2}>(1)", "runtime.spawn<Counter>(1)",
                  "counter.call<pharos::overload<int(int) &>(&Counter::add)>(1)",
                  "counter.call<pharos::overload<int(double) const&>(&Counter::add)>(1)",
                  "counter.call<&Counter::inherited>()", "counter.call<&Counter::made>()",
                  "counter.call<[](Counter& self) { return self.add(1.0); }>()",
                  "pharos::ForeignActor{{}}.method<int(const std::string&)>(\"m\").call({.unordered = true}, \"text\")"]

# name: (declarations, the call; what the compiler says)
REFUSED_CALLS = {
    "too few arguments": ("", "runtime.submit<&add>(1)", "Its default arguments do not come with its name"),
    "too few arguments of a method": ("struct C { int f(int); };", "pharos::Actor<C>{{}}.call<&C::f>()",
                                      "the call has fewer arguments than the function has parameters"),
    "too many arguments": ("", "runtime.submit<&add>(1, 2, 3)", "the call has more arguments than"),
    "an argument that does not convert": ("", "runtime.submit<&add>(1, std::string{})",
                                          "this argument does not convert to the parameter's type"),
    "a Ref that does not convert": ("std::string text();", "runtime.submit<&add>(1, runtime.submit<&text>())",
                                    "the result that this Ref stands for does not convert"),
    "an argument that must be moved": ("int f(std::optional<std::unique_ptr<int>>);\nstd::unique_ptr<int> box;",
                                       "runtime.submit<&f>(box)", "pass it with std::move()"),
    "a reference that would be changed": ("void f(int&);", "int n; runtime.submit<&f>(n)",
                                          "cannot change its caller's variable"),
    "a pointer as an argument": ("void f(const char*);", "runtime.submit<&f>(\"text\")", "a pointer means nothing"),
    "a result that cannot travel": ("std::string_view f();", "runtime.submit<&f>()", "a view refers to this process's"),
    "a method without an object": ("", "runtime.submit<&Counter::inherited>()", "a method needs an object"),
    "a method of another class": ("struct Other { int f(); };", "counter.call<&Other::f>()",
                                  "this is a method of another class than the actor's"),
    "a method of a derived class": ("struct More : Counter { int more(); };", "counter.call<&More::more>()",
                                    "this is a method of another class than the actor's"),
    "a coroutine as a task": ("pharos::Async<int> f();", "runtime.submit<&f>()",
                              "a task must be an ordinary function, not a coroutine"),
    "a method with &&": ("struct C { int f() &&; };", "pharos::Actor<C>{{}}.call<&C::f>()",
                         "a method with && moves from its object"),
    "a field": ("struct C { int n; };", "pharos::Actor<C>{{}}.call<&C::n>()", "this cannot be called"),
    "a number": ("", "runtime.submit<5>()", "this cannot be called"),
    "a generic lambda": ("", "runtime.submit<[](auto value) { return value; }>(1)", "give the lambda's parameters types"),
    "a mutable lambda": ("", "runtime.submit<[](int value) mutable { return value; }>(1)", "must be const"),
    "an object without a call": ("struct C {};", "runtime.submit<C{}>()", "without exactly one operator()"),
    "an object with two calls": ("struct C { void operator()(int) const; void operator()() const; };",
                                 "runtime.submit<C{}>()", "without exactly one operator()"),
    "a lambda that captures": ("", "int n = 1; runtime.submit([n] { return n; })", "pass as arguments what it would"),
    "a function that is passed": ("", "runtime.submit(&add, 1, 2)", "the function must be a template argument"),
    "a method that is passed": ("", "counter.call(&Counter::inherited)", "the function must be a template argument"),
    "no such constructor": ("", "runtime.spawn<Counter>(std::vector<int>{})", "T has no constructor for these arguments"),
    "an abstract class": ("struct C { virtual int f() = 0; };", "runtime.spawn<C>()", "T is abstract"),
    "parts of a number": ("", "runtime.submit<&add>(1, 2).split()", "only a std::tuple or std::pair has parts"),
    "a method for other builds with a handle": (
        "struct C { void f(pharos::Actor<C>); static constexpr auto pharos_methods = pharos::methods<&C::f>; };",
        "runtime.spawn<C>()", "takes and returns only types that these know, too"),
    "a function for other builds": (
        "struct C { static int f(); static constexpr auto pharos_methods = pharos::methods<&C::f>; };",
        "runtime.spawn<C>()", "pharos_methods lists methods of the class"),
    "a foreign method with a Ref": ("", "pharos::ForeignActor{{}}.method<pharos::Ref<int>()>(\"m\")",
                                    "takes and returns only types that these know, too"),
    "an exception that cannot travel": (
        "struct E : std::exception { int n; };\ntemplate <> inline constexpr auto pharos::throws<&add> = pharos::types<E>;",
        "runtime.submit<&add>(1, 2)", "a class with virtual functions must say what travels"),
    "a const exception": ("template <> inline constexpr auto pharos::throws<&add> = pharos::types<const int>;",
                          "runtime.submit<&add>(1, 2)", "declare the type of the exception itself"),
}

HEADERS = ["atomic", "complex", "functional", "future", "map", "memory", "mutex", "optional", "ranges", "set", "span",
           "string", "string_view", "thread", "tuple", "vector", "pharos/pharos.hpp", "pharos/wire/stored_codec.hpp"]


def sending(declarations: str) -> str:
    return (f"{declarations}\nvoid send(const Sent& sent, pharos::Encoder& to) {{\n"
            "  pharos::detail::check_travels<Sent>();\n"
            "  pharos::Codec<Sent>::encode(sent, to);\n}\n")


def calling(declarations: str, calls: str) -> str:
    return (f"{CALLS}{declarations}\nvoid call(pharos::Runtime& runtime, pharos::Actor<Counter>& counter) {{\n"
            f"  {calls};\n  static_cast<void>(runtime), static_cast<void>(counter);\n}}\n")


def errors_of(folder: pathlib.Path, number: int, text: str) -> list[str]:
    source = folder / f"{number}.cpp"
    source.write_text(f'#include "headers.hpp"\n{text}')
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

    def expect_refusals(self, cases: dict[str, tuple[str, str]]):
        """Each program is refused, and with one sentence."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            found = pool.map(lambda case: errors_of(self.folder, *case), enumerate(text for text, _ in cases.values()))
            for (name, (_, sentence)), errors in zip(cases.items(), found):
                with self.subTest(name):
                    self.assertEqual(len(errors), 1, "\n".join(errors) or "it compiled")
                    self.assertIn(sentence, errors[0])

    def test_what_travels_compiles_and_what_does_not_is_refused_with_one_sentence(self):
        self.assertEqual(errors_of(self.folder, len(REFUSED), sending(ACCEPTED)), [])
        self.expect_refusals({name: (sending(declarations), sentence)
                              for name, (declarations, sentence) in REFUSED.items()})

    def test_what_can_be_called_compiles_and_what_cannot_is_refused_with_one_sentence(self):
        calls = ";\n  ".join(f"static_cast<void>({call})" for call in ACCEPTED_CALLS)
        self.assertEqual(errors_of(self.folder, len(REFUSED_CALLS), calling("", calls)), [])
        self.expect_refusals({name: (calling(declarations, call), sentence)
                              for name, (declarations, call, sentence) in REFUSED_CALLS.items()})


if __name__ == "__main__":
    COMPILE = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])

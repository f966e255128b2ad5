"""Refuses coroutines that are capturing lambdas, static coroutines of a class that get its object as a pointer, and
conditions that await. The captures die with the lambda while the
coroutine still runs, and GCC 11 and 12 even free them twice when the coroutine is awaited. For a condition that awaits,
GCC 12 writes beyond the frame of the coroutine."""

import re

from source import Problem, Tree, line_of

# A "[" that may begin a lambda: not an attribute, not a subscript.
INTRODUCER = re.compile(r"(?<![\w\])\[])\[(?!\[)")
STRUCTURED_BINDING = re.compile(r"\bauto\s*&{0,2}\s*$")
CLOSING = {"(": ")", "[": "]", "{": "}"}
CONDITION = re.compile(r"\b(if|while|switch|for)\s*\(")
STATIC_OF_AN_OBJECT = re.compile(r"\bstatic\s+(?:async::)?Async<[^;{}]*?>\s+(\w+)\((\w+)\*\s+self\b")
COROUTINE_WORD = re.compile(r"\bco_(await|return|yield)\b")


def matching(code: str, start: int) -> int:
    """Returns the offset after the bracket that closes the one at `start`, or -1 if no bracket does."""
    stack = []
    for offset in range(start, len(code)):
        if code[offset] in CLOSING:
            stack.append(CLOSING[code[offset]])
        elif code[offset] in ")]}":
            if not stack or stack.pop() != code[offset]:
                return -1
            if not stack:
                return offset + 1
    return -1


def lambdas(code: str) -> list[tuple[int, str, int, int]]:
    """Returns (offset, captures, begin of the body, end of the body) for each lambda."""
    found = []
    for match in INTRODUCER.finditer(code):
        start = match.start()
        end = matching(code, start)
        if end < 0 or STRUCTURED_BINDING.search(code[max(0, start - 20) : start]):
            continue
        captures = code[start + 1 : end - 1].strip()
        offset = end
        if template := re.match(r"\s*<[^;{}]*?>\s*(?=\()", code[offset:]):
            offset += template.end()
        offset += len(code[offset:]) - len(code[offset:].lstrip())
        if code.startswith("(", offset):
            offset = matching(code, offset)
            if offset < 0:
                continue
        body = re.match(r"[\w\s:<>,*&]*(->[^;{}]*)?\{", code[offset:])
        if body is None:
            continue
        begin = offset + body.end() - 1
        finish = matching(code, begin)
        if finish > 0:
            found.append((start, captures, begin, finish))
    return found


def awaiting_conditions(code: str) -> list[tuple[int, str]]:
    """Returns (offset, statement) for each condition that awaits. The initializer before a condition, as in
    if (x = …; x), may await."""
    found = []
    for match in CONDITION.finditer(code):
        end = matching(code, match.end() - 1)
        header = code[match.end() : end - 1] if end > 0 else ""
        parts = header.split(";")
        condition = parts[1] if match[1] == "for" and len(parts) == 3 else parts[-1]
        if "co_await" in condition:
            found.append((match.start(), match[1]))
    return found


def check_coroutines(tree: Tree) -> list[Problem]:
    problems = []
    for name in tree.cpp_files:
        code = tree.code(name)
        for match in STATIC_OF_AN_OBJECT.finditer(code):
            problems.append(Problem(name, line_of(code, match.start()), f"{match[1]}() is a static coroutine of a "
                                    f"{match[2]}: make it a member, which lives no longer than the object either"))
        if not COROUTINE_WORD.search(code):
            continue
        for start, statement in awaiting_conditions(code):
            problems.append(Problem(name, line_of(code, start), f"the condition of this {statement} awaits, which GCC "
                                    "12 compiles wrongly: give the result a name before it"))
        found = lambdas(code)
        for start, captures, begin, end in found:
            body = list(code[begin:end])
            for _, _, inner_begin, inner_end in found:
                if begin < inner_begin and inner_end <= end:
                    body[inner_begin - begin : inner_end - begin] = " " * (inner_end - inner_begin)
            if captures and COROUTINE_WORD.search("".join(body)):
                problems.append(Problem(name, line_of(code, start), f"a lambda that captures [{captures}] is a "
                                        "coroutine: its captures die before it does; make it a function whose "
                                        "parameters are values"))
    return problems

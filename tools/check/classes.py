"""Refuses classes that nobody can hold in their head: with too many methods, or too many fields. Each declaration of a
method counts, private ones and overloads too; deleted and defaulted ones do not. Static fields do not count."""

import dataclasses
import re

from source import Problem, Tree, line_of

METHODS_MAX = 40
FIELDS_MAX = 20
# Classes that are larger, each with its reason. At most three.
LARGER = {
    "TunerOptions": "a program sets a few of its 25 options by their names; with structs in it, each name would be longer",
    "ActorOptions": "the same, of 21",
}
LARGER_MAX = 3

CLASS = re.compile(r"\b(?:class|struct)\s+(?:\[\[\w+\]\]\s*)?(?:[A-Z][A-Z_]+\s+)?([A-Za-z_][\w:]*)\s*(?:<[^{};]*>\s*)?(?:final\s*)?"
                   r"(?::(?!:)[^{};]*)?\{")
NESTED = re.compile(r"(?:template\s*<.*>\s*)?(?:class|struct|enum|union)\b")
FORWARD = re.compile(r"(?:class|struct|union|enum(?:\s+class)?)\s+[\w:]+(?:\s*:\s*[\w:]+)?$")
NO_MEMBER = re.compile(r"(?:using|friend|typedef|static_assert|concept)\b")
ACCESS = re.compile(r"\b(?:public|private|protected)\s*:(?!:)")
TEMPLATE = re.compile(r"^(?:template\s*<>\s*)+")
NAME_BEFORE_BRACE = re.compile(r"[\w>]\s*$")


@dataclasses.dataclass(frozen=True)
class Class:
    name: str
    line: int
    methods: int
    fields: int


def without_angles(text: str) -> str:
    """Blanks template arguments, innermost first: the parentheses in them belong to types."""
    text = text.replace("->", "  ").replace("<=>", "   ").replace("<<", "  ").replace(">=", "  ").replace("<=", "  ")
    while (shorter := re.sub(r"<[^<>]*>", "<>", text.replace("<>", "  "))) != text:
        text = shorter
    return text


def is_function(statement: str) -> bool:
    if re.search(r"\boperator\b", statement):
        return True
    plain = without_angles(statement)
    return "(" in re.split(r"=(?!=)|\{", plain)[0]


def begins_body(statement: str) -> bool:
    """Returns whether a brace after this text begins the body of a function, and not a member's initial value."""
    if not is_function(statement):
        return False
    after_parameters = without_angles(statement).replace("::", "  ")
    after_parameters = after_parameters[after_parameters.index(")") + 1 :] if ")" in after_parameters else ""
    in_initializers = ":" in after_parameters
    return not in_initializers or NAME_BEFORE_BRACE.search(statement) is None


def members(body: str) -> list[str]:
    """Returns the statements between the braces of a class, each without the insides of its braces."""
    found, statement, depth, offset = [], "", 0, 0
    ends_statement = False
    while offset < len(body):
        char = body[offset]
        offset += 1
        if char == "{":
            if depth == 0:
                # A brace between parentheses is a default argument.
                ends_statement = statement.count("(") == statement.count(")") and begins_body(statement)
            depth += 1
        elif char == "}":
            depth -= 1
            if depth == 0:
                statement += "{}"
                if ends_statement:
                    found.append(statement)
                    statement = ""
        elif depth == 0 and char == ";":
            found.append(statement)
            statement = ""
        elif depth == 0:
            statement += char
    return [TEMPLATE.sub("", ACCESS.sub("", each)).strip() for each in found]


def count(body: str) -> tuple[int, int]:
    methods = fields = 0
    for member in members(body):
        if not member or NO_MEMBER.match(member) or FORWARD.match(member) or (NESTED.match(member) and "{}" in member):
            continue
        if is_function(member):
            methods += not re.search(r"=\s*(?:delete|default)$", member)
        elif not re.match(r"(?:static|constexpr|inline static)\b", member):
            fields += 1 + re.sub(r"\([^()]*\)|\[[^\]]*\]|\{\}", "", without_angles(member)).count(",")
    return methods, fields


def classes(code: str) -> list[Class]:
    code = re.sub(r"(?m)^[ \t]*#.*(?:\\\n.*)*$", lambda match: re.sub(r"[^\n]", " ", match[0]), code)
    found = []
    for match in CLASS.finditer(code):
        depth, end = 1, match.end()
        while end < len(code) and depth > 0:
            depth += (code[end] == "{") - (code[end] == "}")
            end += 1
        methods, fields = count(code[match.end() : end - 1])
        found.append(Class(match[1], line_of(code, match.start()), methods, fields))
    return found


def check_classes(tree: Tree) -> list[Problem]:
    problems = []
    if len(LARGER) > LARGER_MAX:
        problems.append(Problem("tools/check/classes.py", 1, f"{len(LARGER)} classes may be larger than the others, and "
                                                             f"{LARGER_MAX} may: break one up"))
    for name in tree.cpp_files:
        for each in classes(tree.code(name)):
            if (each.methods > METHODS_MAX or each.fields > FIELDS_MAX) and each.name not in LARGER:
                problems.append(Problem(name, each.line, f"{each.name} has {each.methods} methods and {each.fields} fields, "
                                        f"and {METHODS_MAX} and {FIELDS_MAX} may be: give each of its responsibilities a "
                                        "class of its own"))
    return problems

"""Checks that the units of a module do not include each other in a circle. A unit is a header and the source file that
implements it: x.hpp and x.cpp."""

import pathlib

from includes import module_of
from source import Problem, Tree, includes

# Modules that still have circles. A module that has none any more leaves this list for good.
MAY_HAVE_CIRCLES = ["async"]

Place = tuple[str, int]  # file and line of an #include
Graph = dict[str, dict[str, Place]]  # for each unit, the units that it includes


def units_of(tree: Tree) -> dict[str, str]:
    """Returns the unit of each file, named after its header. A source file belongs to the header of its name in its own
    folder, else to the public header of that name in its module; else it is a unit of its own."""
    public = {(name.split("/include/")[0], pathlib.PurePath(name).stem): name for name in tree.public_headers}
    files = set(tree.cpp_files)
    units = {}
    for name in tree.cpp_files:
        if module_of(name) is None or module_of(name) in MAY_HAVE_CIRCLES:
            continue
        path = pathlib.PurePath(name)
        beside = str(path.with_suffix(".hpp"))
        units[name] = beside if beside in files else public.get((name.split("/src/")[0], path.stem), name)
    return units


def graph_of(tree: Tree) -> Graph:
    units = units_of(tree)
    public = {header.split("/include/", 1)[1]: header for header in tree.public_headers}
    graph: Graph = {unit: {} for unit in units.values()}
    for name, unit in units.items():
        for line, included in includes(tree, name):
            header = public.get(included, name.split("/src/")[0] + "/src/" + included)
            other = units.get(header, unit)
            if other != unit and module_of(other) == module_of(unit):
                graph[unit].setdefault(other, (name, line))
    return graph


def circles_in(graph: Graph) -> list[list[str]]:
    """Returns one circle of each set of units that all include each other, directly or not."""
    circles = []
    seen: set[str] = set()
    for start in sorted(graph):
        if start in seen:
            continue
        way_back = shortest_circle(graph, start)
        if way_back:
            circles.append(way_back)
            seen.update(unit for unit in reachable(graph, start) if start in reachable(graph, unit))
    return circles


def reachable(graph: Graph, start: str) -> set[str]:
    found = {start}
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()].keys() - found
        found |= new
        waiting.extend(new)
    return found


def shortest_circle(graph: Graph, start: str) -> list[str]:
    """Returns the units of the shortest circle through this unit, or an empty list."""
    ways = [[start]]
    seen: set[str] = set()
    for way in ways:
        for other in sorted(graph[way[-1]]):
            if other == start:
                return way
            if other not in seen:
                seen.add(other)
                ways.append([*way, other])
    return []


def check_cycles(tree: Tree) -> list[Problem]:
    graph = graph_of(tree)
    problems = []
    for circle in circles_in(graph):
        file, line = graph[circle[-1]][circle[0]]
        names = " -> ".join(pathlib.PurePath(unit).name for unit in [*circle, circle[0]])
        problems.append(Problem(file, line, f"units include each other in a circle, so that none of them can be read, "
                                f"tested or changed alone: {names}; move what both need into a unit of its own, or let "
                                "one of them name an interface"))
    return problems

"""Three import-linter contracts of our own, beside its ready-made ones; `.importlinter` uses them.

All three look at direct imports: whoever imports a module that breaks a rule is found at that module.
"""

from collections.abc import Iterable, Iterator

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output

Import = tuple[str, str]


def _inside(module: str, packages: Iterable[str]) -> bool:
    """Tells whether the module is one of the packages or lies in one."""
    return any(module == package or module.startswith(package + ".") for package in packages)


def _imports_of(graph: ImportGraph, package: str) -> Iterator[Import]:
    """Lists the direct imports made in a package."""
    for importer in sorted({package, *graph.find_descendants(package)}):
        for imported in sorted(graph.find_modules_directly_imported_by(importer)):
            yield importer, imported


class _DirectContract(Contract):
    """Renders the broken imports of a contract, one a line."""

    def broken(self, graph: ImportGraph) -> list[Import]:
        """Lists the imports that break the contract."""
        raise NotImplementedError

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Judges the graph."""
        found = self.broken(graph)
        return ContractCheck(kept=not found, metadata={"broken": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Prints what was found."""
        for importer, imported in check.metadata["broken"]:
            output.print_error(f"{importer} must not import {imported}", bold=False)


class OnlyContract(_DirectContract):
    """The modules of `package` import nothing but themselves and `may_import`.

    `free` names children that the rule spares; with `among` only imports of modules in those packages are judged.
    """

    type_name = "only"
    package = fields.StringField()
    may_import = fields.ListField(subfield=fields.StringField())
    free = fields.ListField(subfield=fields.StringField(), required=False)
    among = fields.ListField(subfield=fields.StringField(), required=False)

    def broken(self, graph: ImportGraph) -> list[Import]:
        spared = [f"{self.package}.{name}" for name in self.free or ()]
        allowed = [self.package, *self.may_import]
        return [
            (importer, imported)
            for importer, imported in _imports_of(graph, self.package)
            if not _inside(importer, spared) and not _inside(imported, allowed)
            if not self.among or _inside(imported, self.among)
        ]


class SiblingsContract(_DirectContract):
    """In each of `packages`, no child imports another child, except children named in `shared`."""

    type_name = "siblings"
    packages = fields.ListField(subfield=fields.StringField())
    shared = fields.ListField(subfield=fields.StringField(), required=False)

    def broken(self, graph: ImportGraph) -> list[Import]:
        return [found for package in self.packages for found in self._between_children(graph, package)]

    def _between_children(self, graph: ImportGraph, package: str) -> Iterator[Import]:
        shared = [f"{package}.{name}" for name in self.shared or ()]
        for importer, imported in _imports_of(graph, package):
            ours, theirs = (name.removeprefix(package + ".").split(".")[0] for name in (importer, imported))
            if importer != package and _inside(imported, [package]) and imported != package:
                if ours != theirs and not _inside(imported, shared):
                    yield importer, imported


class ReachedFromContract(_DirectContract):
    """Each of `packages` is imported from itself and from `importers` only."""

    type_name = "reached_from"
    packages = fields.ListField(subfield=fields.StringField())
    importers = fields.ListField(subfield=fields.StringField())

    def broken(self, graph: ImportGraph) -> list[Import]:
        return [
            (importer, imported)
            for package in self.packages
            for imported in sorted({package, *graph.find_descendants(package)})
            for importer in sorted(graph.find_modules_that_directly_import(imported))
            if not _inside(importer, [package, *self.importers])
        ]

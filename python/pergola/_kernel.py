"""Modules and kernels: what is known of them, and calling them by name."""
from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, Optional, TypedDict, cast

from . import _core, _dtypes

if TYPE_CHECKING:
    from ._session import Session

_ACCESS = ("none", "read", "write", "read+write", "unknown")
_KIND = ("integer", "float", "bits", "pointer", "struct")
_DIRECTION = ("", "in", "out", "inout")


class Parameter(NamedTuple):
    """A kernel's parameter, as its PTX declares it. An integer of 8 bytes may be a pointer: PTX does not tell."""

    name: str  # "saxpy_param_2"
    type: str  # "u64"
    kind: str  # "integer", "float", "bits", "pointer", "struct"
    offset_bytes: int
    size_bytes: int
    align_bytes: int
    access: str  # of the memory that it points at: "none", "read", "write", "read+write", "unknown"
    reason: str  # the instruction that shows it
    direction: str  # of the signature: "in", "out", "inout"; "" where none is declared
    declaration: str  # of the signature, "x: in pointer float"; "" without one


class KernelInfo(TypedDict):
    """What a kernel needs."""

    name: str
    parameter_bytes: int
    static_shared_bytes: int
    registers_per_thread: int  # 0: the device has no notion of it
    local_bytes_per_thread: int
    max_threads_per_block: int
    required_block: tuple[int, int, int]  # zeros where it requires none
    universal_access: str  # to any array: "none", "read", "write", "read+write", "unknown"
    universal_reason: str  # the instruction that shows it


class Kernel(_core.Kernel):
    """A kernel. `k[grid, block](arguments)` launches it, as does `k[threads](arguments)` in one dimension."""

    __slots__ = ("__weakref__", "_cached_parameters")
    _cached_parameters: tuple[Parameter, ...]

    @property
    def name(self) -> str:
        """As in the PTX, mangled where the source was."""
        return str(self._info()["name"])

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its parameters, as the PTX declares them, and what is known of the memory that they point at."""
        if not hasattr(self, "_cached_parameters"):
            self._cached_parameters = tuple(
                Parameter(name, type_, _KIND[kind], offset, size, align, _ACCESS[access], reason, _DIRECTION[direction],
                          declaration)
                for (name, type_, kind, offset, size, align, access, reason, direction,
                     declaration) in self._parameters())
        return self._cached_parameters

    @property
    def info(self) -> KernelInfo:
        """What it needs: parameter_bytes, static_shared_bytes, registers_per_thread (0: the device has no notion of
        it), local_bytes_per_thread, max_threads_per_block, required_block, universal_access, universal_reason."""
        info = self._info()
        info["universal_access"] = _ACCESS[info["universal_access"]]
        return cast(KernelInfo, info)

    def explain(self) -> str:
        """What is known of it, for people."""
        info = self._info()
        lines = [f"kernel {info['name']}"]
        width = max((len(p.name) for p in self.parameters), default=0)
        for p in self.parameters:
            what = "" if p.access == "none" else f"  {p.access:<10} {p.reason}"
            lines.append(f"  {p.name:<{width}}  {p.type:<4} {_dtypes.plural(p.size_bytes, 'byte'):>9}{what}".rstrip())
        if info["universal_access"]:
            lines.append(f"  any array may be used ({_ACCESS[info['universal_access']]}): {info['universal_reason']}")
        needs = f"at most {_dtypes.plural(info['max_threads_per_block'], 'thread')} a block"
        if any(info["required_block"]):
            needs = f"blocks of {tuple(max(1, extent) for extent in info['required_block'])} threads, as it requires"
        for key, one, of in (("registers_per_thread", "register", "a thread"),
                             ("static_shared_bytes", "byte", "of shared memory"),
                             ("local_bytes_per_thread", "byte", "of local memory a thread")):
            if info[key]:
                needs += f", {_dtypes.plural(info[key], one)} {of}"
        return "\n".join([*lines, f"  {needs}"])

    def __repr__(self) -> str:
        try:
            return f"<pergola.Kernel {self.name}({', '.join(p.type for p in self.parameters)})>"
        except _core.FailedPrecondition:
            return "<pergola.Kernel of the parent process>"


class Module(_core.Module):
    """The kernels of a file or text, as attributes (`module.saxpy`) and items (`module["ns::saxpy"]`); with a signature
    by `module.kernel("saxpy", "...")`."""

    # What __getattr__ finds is kept in __dict__, where the interpreter finds it by itself from then on.
    __slots__ = ("__weakref__", "_kernels", "__dict__")
    _kernels: dict[str, Kernel]

    @property
    def names(self) -> list[str]:
        """Its kernels, as in the PTX."""
        return self._names()

    def __getitem__(self, name: str) -> Kernel:
        """By its name in the PTX or, where just one kernel fits, its plain C++ name. NotFound lists what is there."""
        if not hasattr(self, "_kernels"):
            self._kernels = {}
        kernel = self._kernels.get(name)
        return kernel if kernel is not None else self._kernels.setdefault(name, Kernel(self, name))

    def kernel(self, name: str, signature: Optional[str] = None) -> Kernel:
        """As module[name], with a signature in NIDL or as for NFI (docs/scheduling.md), which is believed where the PTX
        leaves a doubt:

            module.kernel("gather", signature="table: in pointer uint64, rows: in pointer float, y: out pointer float")

        ParseError names the column; InvalidArgument the instruction that does otherwise. "" is the signature of a kernel
        without parameters."""
        return self[name] if signature is None else Kernel(self, name, signature)

    def __getattr__(self, name: str) -> Kernel:
        if name.startswith("__") or name in Module.__slots__:
            raise AttributeError(name)
        try:
            kernel = self.__dict__[name] = self[name]
            return kernel
        except (_core.NotFound, _core.InvalidArgument) as error:  # the second where several have that plain name
            raise AttributeError(str(error)) from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in Module.__slots__:
            raise AttributeError(f"A module's attributes are its kernels; '{name}' cannot be set.")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"A module's attributes are its kernels; '{name}' cannot be deleted.")

    def __iter__(self) -> Iterator[Kernel]:
        return (self[name] for name in self.names)

    def __len__(self) -> int:
        return len(self.names)

    def __contains__(self, name: object) -> bool:
        """Whether module[name] is a kernel; of a kernel, whether it is one of the module's."""
        try:
            if isinstance(name, str):
                return name in self.names or self[name] is not None
        except (_core.NotFound, ValueError, _core.Unsupported):
            return False
        return any(name is kernel for kernel in getattr(self, "_kernels", {}).values())

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.names})

    def __repr__(self) -> str:
        try:
            return f"<pergola.Module of {', '.join(self.names)}>"
        except _core.FailedPrecondition:
            return "<pergola.Module of the parent process>"


def only_kernel(session: Session, module: Module, signature: Optional[str] = None) -> Kernel:
    """The module's kernel, where it has just one."""
    if not len(module):
        raise _core.InvalidArgument("There is no kernel in the source: one is a `__global__` function, and of a template what is "
                                    "instantiated in the source (`template __global__ void f<float>(float*);`).")
    if len(module) != 1:
        raise _core.InvalidArgument(f"kernel() is of a source with one kernel; this one has {len(module)} "
                                    f"({', '.join(module.names)}): take module() and name it.")
    return module.kernel(module.names[0], signature)

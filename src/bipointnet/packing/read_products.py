"""How products of two values are read: T-Nets, X-convolutions, PointConv's sums.

    result[i, k] = sum over j of x[i, j] y[j, k]

What i, j and k count decides which operation it is. j counts

- channels of both: each point times a matrix of its cloud or of its own (`transform`)
- channels of one and neighbors in the other: a matrix weights and permutes the neighbors (`mix`)
- points or neighbors of both: a sum over them of outer products (`outer`)
"""

import numpy as np

from bipointnet.packing.axes import Atom, CannotLower, Sym, channel, unify
from bipointnet.packing.graph import Node
from bipointnet.packing.reading import Reading

UNKNOWN = (
    "a product of all points with all points, or of two matrices; expected a matrix of channels per point or cloud"
)


def matrix_product(r: Reading, x: Sym, y: Sym) -> Sym:
    """x (..., i, j), y (..., j, k)"""
    shared = [atom for atom in y.axes[-1] if atom.role == "channel" and atom in x.atoms()]
    y = y.renamed({atom: (channel(atom.size, r.runs),) for atom in shared})  # x times itself has two axes of channels
    x, y = _unified(x, y)
    x, y = r.spread(x), r.spread(y)
    rows, inner_x, inner_y, columns = x.axes[-2], x.axes[-1], y.axes[-2], y.axes[-1]
    lead = tuple(max(a, b, key=len) for a, b in zip(x.axes[:-2], y.axes[:-2], strict=True))
    roles = {atom.role for atom in inner_x}, {atom.role for atom in inner_y}
    if roles == ({"channel"}, {"channel"}):
        return _transform(r, x, y, lead, rows, inner_x, inner_y, columns)
    if roles == ({"channel"}, {"slots"}):
        return _mix(r, x, y, lead, rows, inner_x, inner_y[0], columns)
    if roles == ({"slots"}, {"channel"}):
        mirrored = _mix(r, y, x, lead, columns, inner_y, inner_x[0], rows)
        return mirrored.with_axes((*mirrored.axes[:-2], mirrored.axes[-1], mirrored.axes[-2]))
    if inner_x == inner_y and len(inner_x) == 1 and inner_x[0].domain is not None:
        return _outer(r, x, y, lead, rows, inner_x[0], columns)
    raise CannotLower(UNKNOWN)


def _unified(x: Sym, y: Sym) -> tuple[Sym, Sym]:
    """The batch axes agree, and so do the atoms of j where both are of one kind."""
    bare = unify([x.with_axes(x.axes[:-2]), y.with_axes(y.axes[:-2])])
    x = _following(x, bare[0])
    y = _following(y, bare[1])
    a, b = x.axes[-1], y.axes[-2]
    if a and b and a != b and {atom.role for atom in (*a, *b)} == {"channel"}:
        one, other = unify([Sym(x.node, x.channels, (a,)), Sym(y.node, y.channels, (b,))])
        # Only the sizes of the atoms have to agree: the channels of x and y are different ones.
        x = Sym(x.node, one.channels, (*x.axes[:-1], one.axes[0]))
        y = Sym(y.node, other.channels, (*y.axes[:-2], other.axes[0], y.axes[-1]))
    return x, y


def _following(sym: Sym, lead: Sym) -> Sym:
    """The symbol with new leading axes, and all its atoms renamed in the same way."""
    before = [atom for axis in sym.axes[:-2] for atom in axis]
    after = [atom for axis in lead.axes for atom in axis]
    if len(before) != len(after):
        raise CannotLower(UNKNOWN)
    names = {one: (other,) for one, other in zip(before, after, strict=True) if one is not other}
    renamed = sym.renamed(names)
    return Sym(sym.node, lead.channels, (*lead.axes, *renamed.axes[-2:]))


def _others(sym: Sym, *known: tuple[Atom, ...]) -> tuple[Atom, ...]:
    return tuple(atom for atom in sym.channels if not any(atom in atoms for atoms in known))


def _transform(
    r: Reading,
    x: Sym,
    y: Sym,
    lead: tuple[tuple[Atom, ...], ...],
    rows: tuple[Atom, ...],
    inner_x: tuple[Atom, ...],
    inner_y: tuple[Atom, ...],
    columns: tuple[Atom, ...],
) -> Sym:
    def counts(atoms: tuple[Atom, ...]) -> bool:
        return all(atom.role == "channel" for atom in atoms)

    if not counts(rows) and not counts(columns):
        raise CannotLower(UNKNOWN)
    if counts(columns) and not any(atom.role == "channel" for atom in rows):
        vector, matrix, own, outputs = x, y, inner_x, columns
        order = (*inner_y, *columns)
    elif counts(rows) and not any(atom.role == "channel" for atom in columns):
        vector, matrix, own, outputs = y, x, inner_y, rows
        order = (*inner_x, *rows)
    else:
        raise CannotLower(UNKNOWN)
    if _others(vector, own) or _others(matrix, order):
        raise CannotLower(UNKNOWN)
    node, weights = r.ordered(vector, own), r.ordered(matrix, order)
    if not weights.domain.above(node.domain):
        node = r.graph.broadcast(node, weights.domain)
    count = int(np.prod([atom.size for atom in outputs], dtype=np.int64))
    made = r.graph.make("transform", (node, weights), node.domain, count, outputs=count)
    return Sym(made, outputs, (*lead, rows, columns))


def _mix(
    r: Reading,
    x: Sym,
    y: Sym,
    lead: tuple[tuple[Atom, ...], ...],
    rows: tuple[Atom, ...],
    inner: tuple[Atom, ...],
    slots: Atom,
    columns: tuple[Atom, ...],
) -> Sym:
    """x: matrices (i, j) per group. y: values of neighbors (j, k)."""
    domain = slots.domain
    node = y.node
    assert domain is not None
    assert node is not None
    square = np.prod([atom.size for atom in rows], dtype=np.int64) == slots.size
    if node.domain is not domain or len(set(slots.sizes)) > 1 or not square or _others(x, rows, inner):
        raise CannotLower(UNKNOWN)
    if any(atom.role != "channel" for atom in (*rows, *columns)):
        raise CannotLower(UNKNOWN)
    assert domain.parent is not None
    matrix = r.ordered(x, (*rows, *inner))
    matrix = r.graph.broadcast(matrix, domain.parent)
    made = r.graph.make("mix", (matrix, node), domain, node.channels)
    return Sym(made, y.channels, (*lead, (slots,), columns))


def _outer(
    r: Reading,
    x: Sym,
    y: Sym,
    lead: tuple[tuple[Atom, ...], ...],
    rows: tuple[Atom, ...],
    summed: Atom,
    columns: tuple[Atom, ...],
) -> Sym:
    """x: values (i) and y: values (k) of the same points or neighbors."""
    domain = summed.domain
    assert domain is not None
    assert domain.parent is not None
    nodes: list[Node] = []
    for sym, own in ((x, rows), (y, columns)):
        if any(atom.role != "channel" for atom in own) or _others(sym, own) or sym.node is None:
            raise CannotLower(UNKNOWN)
        nodes.append(r.graph.broadcast(r.ordered(sym, own), domain))
    made = r.graph.make("outer", (nodes[0], nodes[1]), domain.parent, nodes[0].channels * nodes[1].channels)
    return Sym(made, (*rows, *columns), (*lead, rows, columns))
